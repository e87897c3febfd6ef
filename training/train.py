"""Trains the student.

    python training/train.py OUT START --minutes 10 [--rate 4e-4] [--seed 1] [--keep 0,2,4,6,8,11] [--resume FILE]

Reads what `prepare.py` and `targets.py` wrote. A text and its translations learn the vector of the English text: the
loss is 10 x (1 - cosine), and 0.3 x the divergence between the similarities of the texts of a batch and those of their
targets. Every other step hides 12 % of the words. Writes OUT/student.npz, and again every few minutes.
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
from encoder import DEVICE, Blocks, Encoder, from_bert, to_bert, with_translations
from teachers import WORDS, read_weights
from torch import Tensor

HIDDEN_SHARE, HIDDEN_ID, FIRST_WORD = 0.12, 103, 999
COSINE_WEIGHT, RELATION_WEIGHT, TEMPERATURE = 10.0, 0.3, 0.05
WARM_UP, LOWEST_RATE = 0.03, 0.01
WORD_RATE = 2.0
BETAS, LARGEST_GRADIENT = (0.9, 0.98), 5.0
SAVE_MINUTES = 4.0
LOG_STEPS = 200


def loss_of(made: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """How far the vectors are from their targets, alone and among each other."""
    away = 1 - (made * wanted).sum(-1).mean()
    truth = functional.softmax(wanted @ wanted.T / TEMPERATURE, -1)
    similarities = made @ wanted.T / TEMPERATURE
    relation = sum(
        functional.kl_div(functional.log_softmax(each, -1), truth, reduction="batchmean")
        for each in (similarities, similarities.T)
    )
    return COSINE_WEIGHT * away + RELATION_WEIGHT * relation, away.detach()


def rate_at(part: float) -> float:
    if part < WARM_UP:
        return part / WARM_UP
    return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * (part - WARM_UP) / (1 - WARM_UP)))


@torch.no_grad()
def centre(encoder: Encoder, blocks: Blocks, draw: np.random.Generator) -> None:
    """Move the mean of the student's vectors to 0, where the targets have theirs."""
    some = draw.choice(len(blocks.lengths), 500, replace=False)
    encoder.layers[-1].thought.bias -= torch.cat([encoder(blocks[some[n : n + 1]]) for n in range(len(some))]).mean(0)


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
    parser.add_argument("--tokens", type=int, default=98_304, help="of a step")
    parser.add_argument("--texts", type=int, default=4096, help="of a step, at most")
    parser.add_argument("--rate", type=float, default=4e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="weights to go on from, the shipped ones too")
    parser.add_argument("--compile", action="store_true", help="fuse what lies between the multiplications")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    draw = np.random.default_rng(options.seed)
    texts = data.read(options.folder, seed=1)
    blocks = Blocks(texts)
    meaning = torch.from_numpy(texts.meaning).to(DEVICE)
    foreign = torch.from_numpy(texts.language > 0).to(DEVICE)
    targets = torch.from_numpy(np.load(options.folder / "targets.npy")).to(DEVICE)
    weights = read_weights(options.resume or options.start)
    if not options.resume:
        pieces = len((options.folder / "vocab.txt").read_text("utf-8").splitlines())
        weights[WORDS] = with_translations(weights[WORDS], pieces, dict(np.load(options.folder / "translations.npz")))
    encoder = from_bert(weights, None if options.resume else options.keep).to(DEVICE)
    if not options.resume:
        centre(encoder, blocks, draw)
    embed = torch.compile(encoder, dynamic=True) if options.compile else encoder
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
    sums = torch.zeros(5, device=DEVICE)  # steps skipped; texts and 1 - cosine of English, of others
    for epoch in count(1):
        for places in blocks.order(options.tokens, options.texts, draw):
            part = (time.time() - began) / 60 / options.minutes
            for group in optimizer.param_groups:
                group["lr"] = options.rate * rate_at(min(part, 1.0)) * group["factor"]
            ids, chosen = blocks[places], torch.from_numpy(places).to(DEVICE)
            if step % 2:
                hide = (torch.rand(ids.shape, device=DEVICE) < HIDDEN_SHARE) & (ids > FIRST_WORD)
                hide[:, : data.HEAD] = False
                ids = torch.where(hide, HIDDEN_ID, ids)
            wanted = targets[meaning[chosen]].float()
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                made = embed(ids)
            made = functional.normalize(made, dim=-1)
            loss, away = loss_of(made, wanted)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(encoder.parameters(), LARGEST_GRADIENT)
            # The optimizer itself skips a step whose gradients are not finite: nothing waits for the device.
            optimizer.found_inf = (~torch.isfinite(norm)).float()
            optimizer.step()
            step, seen = step + 1, seen + ids.numel()
            with torch.no_grad():
                cosine, other = 1 - (made * wanted).sum(-1), foreign[chosen]
                sums[0] += optimizer.found_inf
                sums[1:] += torch.stack(
                    [(~other).sum(), (cosine * ~other).sum(), other.sum(), (cosine * other).sum()]
                ).nan_to_num()
            if step % LOG_STEPS == 0 or part >= 1:
                skipped, english, away, others_count, away_others = sums.tolist()
                print(
                    f"[{time.time() - began:6.0f}] step {step} epoch {epoch} part {part:.3f} 1 - cosine en "
                    f"{away / max(english, 1):.4f} other {away_others / max(others_count, 1):.4f}; "
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
