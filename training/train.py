"""Trains the student.

    python training/train.py OUT START --minutes 20 [--rate 4e-4] [--seed 1] [--keep 0,2,4,6,8,11] [--resume FILE]

Reads what `prepare.py` and `targets.py` wrote. A text and its translations learn the vector of the English text: the
loss is 10 x (1 - cosine), and the divergence between the similarities of the texts of a batch and those of their
targets. One half of a batch is about one topic, so these similarities are of texts that are hard to tell apart; the
other half is random. Every other step hides 12 % of the words. Writes OUT/student.npz, and again every few minutes.
"""

from __future__ import annotations

import argparse
import math
import time
from itertools import count
from pathlib import Path

import data
import numpy as np
import torch
import torch.nn.functional as functional
from encoder import DEVICE, Batch, Encoder, Packed, embed, from_bert, means, to_bert, with_translations
from teachers import WORDS, read_weights
from torch import Tensor

HIDDEN_SHARE, HIDDEN_ID, FIRST_WORD = 0.12, 103, 999
COSINE_WEIGHT, RELATION_WEIGHT, TEMPERATURE = 10.0, 1.0, 0.05
TOPICS = 512
FILLERS = 4
"""Texts that fill a batch: each of its two packs lacks less than two windows."""
WARM_UP, LOWEST_RATE = 0.03, 0.01
WORD_RATE = 2.0
BETAS, LARGEST_GRADIENT = (0.9, 0.98), 5.0
SAVE_MINUTES = 4.0
LOG_STEPS = 200


def loss_of(made: Tensor, wanted: Tensor, meaning: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """How far the vectors are from their targets, and their similarities from those of the targets."""
    cosines = (made * wanted).sum(-1)
    same = meaning[:, None] == meaning[None, :]
    truth = (wanted @ wanted.T / TEMPERATURE).masked_fill(same, -torch.inf).log_softmax(-1)
    similarities = (made @ made.T / TEMPERATURE).masked_fill(same, -torch.inf).log_softmax(-1)
    relation = (truth.exp() * (truth - similarities).masked_fill(same, 0.0)).sum(-1).mean()
    return COSINE_WEIGHT * (1 - cosines.mean()) + RELATION_WEIGHT * relation, cosines.detach(), relation.detach()


def orders(packed: Packed, meaning: Tensor, targets: Tensor, tokens: int) -> list[tuple[Tensor, int]]:
    """Batches of all texts, each twice: among texts of a topic, and among random ones."""
    count = len(meaning)
    centres = targets[torch.randint(len(targets), (TOPICS,), device=DEVICE)].T
    topic = torch.cat([(part @ centres).argmax(1) for part in targets.split(1 << 20)])[meaning]
    by_topic = torch.argsort(topic + torch.rand(count, device=DEVICE, dtype=torch.float64))
    near = packed.packs(by_topic, tokens // 2)[:-1]
    apart = packed.packs(torch.randperm(count, device=DEVICE), tokens // 2)[:-1]
    return [
        (torch.cat([near[n][0], places]), near[n][1] + size)
        for n, (places, size) in zip(torch.randperm(len(near)).tolist(), apart, strict=False)
    ]


def filled(batch: Batch, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """Fill a batch to a fixed number of ids, which compiled code needs, with texts of at most a window."""
    room = tokens - len(batch.ids)
    more = torch.arange(1, FILLERS + 1, device=DEVICE) * data.WINDOW_TOKENS
    ends = torch.cat([batch.ends, (batch.ends[-1] + more).clamp(max=tokens).int()])
    return functional.pad(batch.ids, (0, room)), functional.pad(batch.column, (0, room)), ends


def rate_at(part: float) -> float:
    if part < WARM_UP:
        return part / WARM_UP
    return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * (part - WARM_UP) / (1 - WARM_UP)))


@torch.no_grad()
def centre(encoder: Encoder, texts: data.Texts, draw: np.random.Generator) -> None:
    """Move the mean of the student's vectors to 0, where the targets have theirs."""
    some = draw.choice(len(texts.lengths), 500, replace=False)
    part = data.Texts(texts.ids, texts.starts[some], texts.lengths[some], texts.meaning[some], texts.language[some])
    encoder.layers[-1].thought.bias -= embed(encoder, part).float().mean(0)


def save(folder: Path, encoder: Encoder) -> None:
    weights = {name: values.astype(np.float16) for name, values in to_bert(encoder).items()}
    np.savez(folder / "student.partial.npz", **weights)
    (folder / "student.partial.npz").replace(folder / "student.npz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("start", type=Path, help="the model whose layers the student starts from")
    parser.add_argument("--keep", type=lambda text: [int(part) for part in text.split(",")], help="layers, if not all")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--tokens", type=int, default=196_608, help="of a step")
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="weights to go on from, the shipped ones too")
    parser.add_argument("--compile", action="store_true", help="fuse what lies between the multiplications")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    texts = data.read(options.folder, seed=1)
    packed = Packed(texts)
    meanings = torch.from_numpy(texts.meaning).to(DEVICE)
    foreign = torch.from_numpy(texts.language > 0).to(DEVICE)
    targets = torch.from_numpy(np.load(options.folder / "targets.npy")).to(DEVICE)
    weights = read_weights(options.resume or options.start)
    if not options.resume:
        pieces = len((options.folder / "vocab.txt").read_text("utf-8").splitlines())
        weights[WORDS] = with_translations(weights[WORDS], pieces, dict(np.load(options.folder / "translations.npz")))
    encoder = from_bert(weights, None if options.resume else options.keep).to(DEVICE)
    if not options.resume:
        centre(encoder, texts, np.random.default_rng(options.seed))
    states_of = torch.compile(encoder) if options.compile else encoder
    words = [encoder.words.weight]
    others = [each for each in encoder.parameters() if each is not encoder.words.weight]
    optimizer = torch.optim.AdamW(
        [{"params": words, "factor": WORD_RATE}, {"params": others, "factor": 1.0}],
        lr=options.rate,
        betas=BETAS,
        weight_decay=0.0,
        fused=True,
    )
    print(f"texts {len(texts.lengths)} tokens {len(texts.ids)}", flush=True)
    began = saved = time.time()
    step = seen = 0
    sums = torch.zeros(6, device=DEVICE)  # steps skipped; relation; texts and 1 - cosine of English, of others
    for epoch in count(1):
        for places, tokens in orders(packed, meanings, targets, options.tokens):
            part = (time.time() - began) / 60 / options.minutes
            for group in optimizer.param_groups:
                group["lr"] = options.rate * rate_at(min(part, 1.0)) * group["factor"]
            batch = packed.batch(places, tokens)
            ids, column, ends = filled(batch, options.tokens)
            if step % 2:
                hide = (torch.rand(ids.shape, device=DEVICE) < HIDDEN_SHARE) & (ids > FIRST_WORD)
                ids = torch.where(hide & (column >= data.HEAD), HIDDEN_ID, ids)
            meaning = meanings[places]
            wanted = targets[meaning].float()
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                states = states_of(ids, column, ends)
            made = functional.normalize(means(states[:tokens], batch), dim=-1)
            loss, cosines, relation = loss_of(made, wanted, meaning)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(encoder.parameters(), LARGEST_GRADIENT)
            # The optimizer itself skips a step whose gradients are not finite: nothing waits for the device.
            optimizer.found_inf = (~torch.isfinite(norm)).float()
            optimizer.step()
            step, seen = step + 1, seen + tokens
            with torch.no_grad():
                away, other = 1 - cosines, foreign[places]
                sums[0] += optimizer.found_inf
                sums[1:] += torch.stack(
                    [relation, (~other).sum(), (away * ~other).sum(), other.sum(), (away * other).sum()]
                ).nan_to_num()
            if step % LOG_STEPS == 0 or part >= 1:
                skipped, related, english, away, others_count, away_others = sums.tolist()
                print(
                    f"[{time.time() - began:6.0f}] step {step} epoch {epoch} part {part:.3f} 1 - cosine en "
                    f"{away / max(english, 1):.4f} other {away_others / max(others_count, 1):.4f}; relation "
                    f"{related / ((step - 1) % LOG_STEPS + 1):.4f}; "
                    f"{seen / (time.time() - began):.0f} tokens/s, {skipped:.0f} skipped",
                    flush=True,
                )
                sums.zero_()
            if part >= 1 or time.time() - saved > 60 * SAVE_MINUTES:
                save(options.folder, encoder)
                saved = time.time()
            if part >= 1:
                return


if __name__ == "__main__":
    main()
