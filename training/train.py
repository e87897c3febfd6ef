"""Distil MiniLM into a German encoder of the same vector space (Reimers and Gurevych, 2020).

    python training/train.py DATA OUT [--seed N] [--steps N] [--word-dropout P] [--weak-licences-only]

DATA holds pairs.tsv.xz, glosses.txt.xz, teacher.npz.xz and vocab.txt (made by `pack.py`) and may hold collections in
BEIR's layout (*.tar.xz). OUT receives student.npz in parts of 15 MiB (join them with `cat`), vocab.txt and
results.json. One H200 needs six minutes; without a GPU only a trial with `--limit` and a few steps is useful.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import math
import random
import time
from dataclasses import dataclass
from pathlib import Path

import encoder
import evaluate
import examples
import numpy as np
import torch
import vocabulary
import weights
from torch import Tensor
from torch.nn import functional

NEW_PIECES = 18_000
BATCH_TOKENS = 65_536
VECTOR_TOKENS = 262_144  # of a batch without gradients
MOST_ROWS = 2_048
FEWEST_ROWS = 64
RATE = 3e-4
WARM_UP = 0.04
TEMPERATURE = 0.05
ENGLISH_EVERY_STEPS = 4  # English texts keep names and foreign words in place
HELD_OUT = 4_000
REPORTED_STEPS = 250
PART_BYTES = 15 << 20
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

started = time.monotonic()


def log(*words: object) -> None:
    print(f"[{time.monotonic() - started:6.1f}]", *words, flush=True)


def half_precision() -> torch.autocast:
    return torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda")


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
        rows = order[start : start + max(1, min(8_192, VECTOR_TOKENS // (longest + 8)))]
        with half_precision():
            found[torch.from_numpy(rows).to(DEVICE)] = model(*texts.batch(rows)).half()
        start += len(rows)
    return found


def embedder(model: encoder.Encoder, pieces: list[str], *, folded: bool) -> evaluate.Embed:
    split = vocabulary.tokenizer(pieces)

    def embed(texts: list[str]) -> np.ndarray:
        ids = vocabulary.encode(split, [vocabulary.fold(text) if folded else text for text in texts])
        return vectors(model, Texts(ids)).float().cpu().numpy()

    return embed


def batches(lengths: np.ndarray, draw: np.random.Generator, tokens: int) -> list[np.ndarray]:
    """Rows of similar length together, as many as the token budget holds, in random order."""
    order = np.argsort(lengths * (1 + 0.15 * draw.random(len(lengths))))
    found: list[np.ndarray] = []
    start = 0
    while start < len(order):
        longest = lengths[order[start : start + MOST_ROWS]].max()
        rows = order[start : start + int(np.clip(tokens // longest, FEWEST_ROWS, MOST_ROWS))]
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


@dataclass(frozen=True)
class Prepared:
    """Everything that training reads, on the device."""

    known: list[str]
    pieces: list[str]
    teacher: encoder.Encoder
    student: encoder.Encoder
    target: Tensor
    german: Texts
    english: Texts
    held_out: list[examples.Pair]
    pairs: int


def prepared(asked: argparse.Namespace) -> Prepared:
    draw = random.Random(asked.seed)
    known = (asked.data / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    state = {name: torch.from_numpy(values) for name, values in weights.read(asked.data / "teacher.npz.xz").items()}
    teacher = encoder.Encoder(len(known))
    teacher.load_state_dict(state)
    teacher.to(DEVICE).eval()
    log("teacher on", DEVICE)

    pairs = examples.read(asked.data / "pairs.tsv.xz", weak_only=asked.weak_licences_only)
    if asked.limit:
        pairs = pairs[:: max(1, len(pairs) // asked.limit)]
    held = set(draw.sample(range(len(pairs)), min(HELD_OUT, len(pairs) // 10)))
    held_out = [pair for place, pair in enumerate(pairs) if place in held]
    pairs = [pair for place, pair in enumerate(pairs) if place not in held]
    log(len(pairs), "pairs")
    texts = [(pair.english, pair.german) for pair in pairs]
    new = vocabulary.german_pieces(texts, known, NEW_PIECES)
    begun = vocabulary.starting_vectors(new, known, state[weights.WORDS].numpy(), texts)
    student = encoder.Encoder(len(known) + len(new))
    student.load_state_dict({**state, weights.WORDS: torch.cat([state[weights.WORDS], torch.from_numpy(begun)])})
    student.to(DEVICE)
    log(len(new), "new pieces")

    with lzma.open(asked.data / "glosses.txt.xz", "rt", encoding="utf-8") as file:
        glosses = file.read().splitlines()[: asked.limit or None]
    both = examples.examples(pairs, glosses, draw)
    pieces = known + new
    theirs, ours = vocabulary.tokenizer(known), vocabulary.tokenizer(pieces)
    log(len(both), "examples")
    target = vectors(teacher, Texts(vocabulary.encode(theirs, [text for text, _ in both])))
    log("vectors of the teacher")
    german = Texts(vocabulary.encode(ours, [vocabulary.fold(text) for _, text in both]))
    english = Texts(vocabulary.encode(ours, [vocabulary.fold(text) for text, _ in both]))
    log(int(german.lengths.sum()), "German tokens")
    return Prepared(known, pieces, teacher, student, target, german, english, held_out, len(pairs))


def without_some(ids: Tensor, mask: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Hide a share of the inner tokens from the student, so that it does not rely on single words."""
    inner = torch.rand(ids.shape, device=ids.device) < share
    inner[:, 0] = False
    return ids, mask & ~inner


def train(data: Prepared, asked: argparse.Namespace) -> int:
    """Train the student and return the number of steps, which is smaller than asked for if time ran out."""
    student = data.student
    others = [value for name, value in student.named_parameters() if "word_embeddings" not in name]
    groups = [
        {"params": [student.embeddings["word_embeddings"].weight], "factor": 2.0},
        {"params": others, "factor": 1.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=0.0, betas=(0.9, 0.98), fused=DEVICE == "cuda")
    order = np.random.default_rng(asked.seed)
    step, epoch = 0, 0
    sums = torch.zeros(2, device=DEVICE)
    lengths = np.maximum(data.german.lengths, data.english.lengths)
    while True:
        epoch += 1
        for rows in batches(lengths, order, asked.batch_tokens):
            if step >= asked.steps:
                return step
            for group in optimizer.param_groups:
                group["lr"] = rate(step / asked.steps) * group["factor"]
            wanted = data.target[torch.from_numpy(rows).to(DEVICE)].float()
            batch = data.german.batch(rows)
            if asked.word_dropout and step % 2:
                batch = without_some(*batch, asked.word_dropout)
            with half_precision():
                made = student(*batch)
            distance, relations = loss_of(made, wanted)
            loss = 10 * distance + 0.3 * relations
            if step % ENGLISH_EVERY_STEPS == 0:
                with half_precision():
                    same = student(*data.english.batch(rows))
                loss = loss + 10 * (1 - (same * wanted).sum(-1)).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 5.0)
            optimizer.step()
            step += 1
            sums += torch.stack([distance.detach(), relations.detach()])
            if step % REPORTED_STEPS == 0:
                means = (sums / REPORTED_STEPS).tolist()
                log(f"step {step} of {asked.steps}, epoch {epoch}: distance {means[0]:.4f}, relations {means[1]:.4f}")
                sums.zero_()
                if time.monotonic() - started > asked.stop_after:
                    log("stopped: no time left")
                    return step


def measured(data: Prepared, archives: list[Path]) -> tuple[float, dict[str, dict[str, float]]]:
    """Cosine to the teacher on held-out pairs, and nDCG@10 of each collection by the teacher, the student and both."""
    data.student.eval()
    original = embedder(data.teacher, data.known, folded=False)
    german = embedder(data.student, data.pieces, folded=True)
    expected = original([pair.english for pair in data.held_out])
    cosine = float((german([pair.german for pair in data.held_out]) * expected).sum(1).mean())
    ways = {"teacher": original, "student": german, "routed": evaluate.routed(german, original)}
    figures: dict[str, dict[str, float]] = {}
    for archive in archives:
        collection = evaluate.read(archive)
        name = archive.name.removesuffix(".tar.xz")
        figures[name] = {way: round(evaluate.ndcg(collection, embed), 4) for way, embed in ways.items()}
        log(name, figures[name])
    return cosine, figures


def save(data: Prepared, out: Path) -> None:
    (out / "vocab.txt").write_text("\n".join(data.pieces) + "\n", encoding="utf-8")
    content = io.BytesIO()
    weights.write({name: value.float().cpu().numpy() for name, value in data.student.state_dict().items()}, content)
    for part, start in enumerate(range(0, content.tell(), PART_BYTES)):
        (out / f"student.npz.{part}").write_bytes(content.getvalue()[start : start + PART_BYTES])
    log("saved", content.tell(), "bytes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3_872)
    parser.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS)
    parser.add_argument("--stop-after", type=float, default=540, help="seconds after which training ends early")
    parser.add_argument("--word-dropout", type=float, default=0.0, help="share of words hidden in every other step")
    parser.add_argument("--weak-licences-only", action="store_true")
    parser.add_argument("--limit", type=int, default=0, help="pairs to use, for a trial")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")
    data = prepared(asked)
    begin = time.monotonic()
    steps = train(data, asked)
    seconds = round(time.monotonic() - begin)
    log(f"{steps} steps in {seconds} s")
    save(data, asked.out)
    cosine, figures = measured(data, sorted(asked.data.glob("*.tar.xz")))
    results = {
        "seed": asked.seed, "steps": steps, "seconds": seconds, "pairs": data.pairs,
        "examples": len(data.german.lengths), "german_tokens": int(data.german.lengths.sum()),
        "word_dropout": asked.word_dropout, "weak_licences_only": asked.weak_licences_only,
        "held_out_cosine": round(cosine, 4), "ndcg@10": figures,
    }  # fmt: skip
    log(json.dumps(results))
    (asked.out / "results.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
