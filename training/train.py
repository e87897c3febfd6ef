"""Distil MiniLM into a German encoder of the same vector space (Reimers and Gurevych, 2020).

    python training/train.py DATA OUT [--seed N] [--steps N | --seconds S] [--weak-licences-only]

DATA holds pairs.tsv.xz, glosses.txt.xz, teacher.npz and vocab.txt (made by `pack.py`) and may hold collections in
BEIR's layout (*.tar.xz). OUT receives student.npz in parts of 15 MB, vocab.txt and results.json. One H200 needs six
minutes.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import random
import time
from pathlib import Path

import encoder
import evaluate
import examples
import numpy as np
import torch
import vocabulary
from torch import Tensor
from torch.nn import functional

NEW_PIECES = 18_000
BATCH_TOKENS = 65_536
MOST_ROWS = 2_048
FEWEST_ROWS = 64
RATE = 3e-4
WARM_UP = 0.04
TEMPERATURE = 0.05
ENGLISH_EVERY_STEPS = 4  # English texts keep names and foreign words in place
HELD_OUT = 4_000
TIMED_STEPS = 200
PART_BYTES = 15 << 20
DEVICE = "cuda"

started = time.monotonic()


def log(*words: object) -> None:
    print(f"[{time.monotonic() - started:6.1f}]", *words, flush=True)


class Texts:
    """Token ids of many texts in one array on the device."""

    def __init__(self, ids: list[np.ndarray]) -> None:
        self.lengths = np.array([len(each) for each in ids])
        self._begin = torch.from_numpy(np.concatenate([[0], np.cumsum(self.lengths)])).to(DEVICE)
        self._ids = torch.from_numpy(np.concatenate(ids)).to(DEVICE)

    def batch(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        chosen = torch.from_numpy(rows).to(DEVICE)
        begin = self._begin[chosen]
        places = torch.arange((int(self.lengths[rows].max()) + 7) // 8 * 8, device=DEVICE)
        mask = places[None] < (self._begin[chosen + 1] - begin)[:, None]
        ids = self._ids[(begin[:, None] + places[None]).clamp(max=len(self._ids) - 1)].long() * mask
        return ids, mask


@torch.no_grad()
def vectors(model: encoder.Encoder, texts: Texts) -> Tensor:
    found = torch.empty(len(texts.lengths), encoder.WIDTH, device=DEVICE, dtype=torch.float16)
    order = np.argsort(texts.lengths)
    start = 0
    while start < len(order):
        longest = texts.lengths[order[min(len(order), start + 8_192) - 1]]
        rows = order[start : start + max(1, min(8_192, 4 * BATCH_TOKENS // (longest + 8)))]
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            found[torch.from_numpy(rows).to(DEVICE)] = model(*texts.batch(rows)).half()
        start += len(rows)
    return found


def embedder(model: encoder.Encoder, pieces: list[str], *, folded: bool) -> evaluate.Embed:
    split = vocabulary.tokenizer(pieces)

    def embed(texts: list[str]) -> np.ndarray:
        ids = vocabulary.encode(split, [vocabulary.fold(text) if folded else text for text in texts])
        return vectors(model, Texts(ids)).float().cpu().numpy()

    return embed


def batches(lengths: np.ndarray, draw: np.random.Generator) -> list[np.ndarray]:
    """Rows of similar length together, as many as the token budget holds, in random order."""
    order = np.argsort(lengths * (1 + 0.15 * draw.random(len(lengths))))
    found: list[np.ndarray] = []
    start = 0
    while start < len(order):
        longest = lengths[order[start : start + MOST_ROWS]].max()
        rows = order[start : start + int(np.clip(BATCH_TOKENS // longest, FEWEST_ROWS, MOST_ROWS))]
        found.append(rows)
        start += len(rows)
    return [found[place] for place in draw.permutation(len(found))]


def rate(progress: float) -> float:
    if progress < WARM_UP:
        return RATE * progress / WARM_UP
    return RATE * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP))))


def loss_of(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Distance to the teacher's vectors, and difference of the similarities within the batch."""
    target = functional.softmax(teacher @ teacher.T / TEMPERATURE, -1)
    both = (student @ teacher.T / TEMPERATURE, teacher @ student.T / TEMPERATURE)
    relations = sum(functional.kl_div(functional.log_softmax(each, -1), target, reduction="batchmean") for each in both)
    return (1 - (student * teacher).sum(-1)).mean(), torch.as_tensor(relations)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=420, help="choose the steps by the speed of the first ones")
    parser.add_argument("--weak-licences-only", action="store_true")
    parser.add_argument("--limit", type=int, default=0, help="pairs to use, for a trial")
    asked = parser.parse_args()
    draw = random.Random(asked.seed)
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")

    known = (asked.data / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    weights = encoder.load(asked.data / "teacher.npz")
    teacher = encoder.Encoder(len(known))
    teacher.load_state_dict(weights)
    teacher.to(DEVICE).eval()

    pairs = examples.read(asked.data / "pairs.tsv.xz", weak_only=asked.weak_licences_only)
    if asked.limit:
        pairs = pairs[:: max(1, len(pairs) // asked.limit)]
    with lzma.open(asked.data / "glosses.txt.xz", "rt", encoding="utf-8") as file:
        glosses = file.read().splitlines()
    held = set(draw.sample(range(len(pairs)), min(HELD_OUT, len(pairs) // 10)))
    held_out = [pair for place, pair in enumerate(pairs) if place in held]
    pairs = [pair for place, pair in enumerate(pairs) if place not in held]
    log(len(pairs), "pairs")
    texts = [(pair.english, pair.german) for pair in pairs]
    new = vocabulary.german_pieces(texts, known, NEW_PIECES)
    pieces = known + new
    words = "embeddings.word_embeddings.weight"
    begun = vocabulary.starting_vectors(new, known, weights[words].numpy(), texts)
    student = encoder.Encoder(len(pieces))
    student.load_state_dict({**weights, words: torch.cat([weights[words], torch.from_numpy(begun)])})
    student.to(DEVICE)
    log(len(new), "new pieces")

    both = examples.examples(pairs, glosses, draw)
    theirs, ours = vocabulary.tokenizer(known), vocabulary.tokenizer(pieces)
    english = [text for text, _ in both]
    target = vectors(teacher, Texts(vocabulary.encode(theirs, english)))
    log(len(both), "examples with the teacher's vectors")
    german_texts = Texts(vocabulary.encode(ours, [vocabulary.fold(text) for _, text in both]))
    english_texts = Texts(vocabulary.encode(ours, [vocabulary.fold(text) for text in english]))
    log(int(german_texts.lengths.sum()), "German tokens")

    words_parameter = [student.embeddings["word_embeddings"].weight]
    others = [value for name, value in student.named_parameters() if "word_embeddings" not in name]
    groups = [{"params": words_parameter, "factor": 2.0}, {"params": others, "factor": 1.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.0, betas=(0.9, 0.98), fused=True)
    order = np.random.default_rng(asked.seed)
    steps, step, epochs, begin = asked.steps, 0, 0, time.monotonic()
    sums = torch.zeros(2, device=DEVICE)
    while not steps or step < steps:
        epochs += 1
        for rows in batches(np.maximum(german_texts.lengths, english_texts.lengths), order):
            if not steps and step == TIMED_STEPS:
                torch.cuda.synchronize()
                steps = int(asked.seconds / (time.monotonic() - begin) * TIMED_STEPS)
                log("steps", steps)
            if steps and step >= steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = rate(step / (steps or 10_000)) * group["factor"]
            wanted = target[torch.from_numpy(rows).to(DEVICE)].float()
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                made = student(*german_texts.batch(rows))
            distance, relations = loss_of(made, wanted)
            loss = 10 * distance + 0.3 * relations
            if step % ENGLISH_EVERY_STEPS == 0:
                with torch.autocast(DEVICE, dtype=torch.bfloat16):
                    same = student(*english_texts.batch(rows))
                loss = loss + 10 * (1 - (same * wanted).sum(-1)).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
            optimizer.step()
            step += 1
            sums += torch.stack([distance.detach(), relations.detach()])
            if step % 500 == 0:
                log(f"step {step}, epoch {epochs}: distance {sums[0] / 500:.4f}, relations {sums[1] / 500:.4f}")
                sums.zero_()
    trained_seconds = time.monotonic() - begin
    log(f"{steps} steps in {trained_seconds:.0f} s")

    student.eval()
    original, german = embedder(teacher, known, folded=False), embedder(student, pieces, folded=True)
    expected = original([pair.english for pair in held_out])
    cosines = (german([pair.german for pair in held_out]) * expected).sum(1)
    figures: dict[str, object] = {}
    ways = {"teacher": original, "student": german, "routed": evaluate.routed(german, original)}
    for archive in sorted(asked.data.glob("*.tar.xz")):
        collection = evaluate.read(archive)
        name = archive.name.removesuffix(".tar.xz")
        figures[name] = {way: round(evaluate.ndcg(collection, embed), 4) for way, embed in ways.items()}
        log(name, figures[name])
    results = {
        "seed": asked.seed, "steps": steps, "seconds": round(trained_seconds), "epochs": epochs, "pairs": len(pairs),
        "examples": len(both), "german_tokens": int(german_texts.lengths.sum()),
        "weak_licences_only": asked.weak_licences_only,
        "held_out_cosine": round(float(cosines.mean()), 4), "ndcg@10": figures,
    }  # fmt: skip
    log(json.dumps(results))
    (asked.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    (asked.out / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    whole = asked.out.parent / "student.npz"
    encoder.save(student.state_dict(), whole)
    content = whole.read_bytes()
    for part, start in enumerate(range(0, len(content), PART_BYTES)):
        (asked.out / f"student.npz.{part}").write_bytes(content[start : start + PART_BYTES])


if __name__ == "__main__":
    main()
