"""Trains the student.

    python training/train.py OUT START.npz --minutes 10 [--rate 2.5e-4] [--seed 1] [--resume student.npz] [--workers 2]

Reads what `prepare.py` and `targets.py` wrote. A text and its translations learn the vector of the English text: the
loss is 10 x (1 - cosine), and 0.3 x the divergence between the similarities of the texts of a batch and those of their
targets. Every other step hides 12 % of the words. Writes OUT/student.npz, and again every few minutes.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from encoder import DEVICE, Encoder, Rows, from_bert, kernel, to_bert
from teachers import read_weights
from torch import Tensor

HIDDEN_SHARE, HIDDEN_ID, FIRST_WORD = 0.12, 103, 999
COSINE_WEIGHT, RELATION_WEIGHT, TEMPERATURE = 10.0, 0.3, 0.05
WARM_UP, LOWEST_RATE = 0.03, 0.02
WORD_RATE = 2.0
BETAS, LARGEST_GRADIENT = (0.9, 0.98), 5.0
SAVE_MINUTES = 5.0


class Words:
    """Vectors of word pieces with Adam for the rows that a step touches."""

    def __init__(self, vectors: Tensor) -> None:
        self.vectors = vectors
        self._mean, self._square = torch.zeros_like(vectors), torch.zeros_like(vectors)
        self._steps = torch.zeros(len(vectors), device=vectors.device)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.vectors, self._mean, self._square, self._steps

    def __getitem__(self, ids: Tensor) -> Tensor:
        return self.vectors[ids]

    def update(self, ids: Tensor, gradient: Tensor, rate: float) -> None:
        rows, inverse = ids.flatten().unique(return_inverse=True)
        summed = torch.zeros(len(rows), self.vectors.shape[1], device=self.vectors.device)
        summed.index_add_(0, inverse, gradient.flatten(0, 1).float())
        self._steps[rows] += 1
        steps = self._steps[rows][:, None]
        mean = self._mean[rows].lerp(summed, 1 - BETAS[0])
        square = self._square[rows].lerp(summed.square(), 1 - BETAS[1])
        self._mean[rows], self._square[rows] = mean, square
        step = mean / (1 - BETAS[0] ** steps) / ((square / (1 - BETAS[1] ** steps)).sqrt() + 1e-8)
        self.vectors[rows] -= rate * step


def loss_of(made: Tensor, wanted: Tensor) -> Tensor:
    """How far the vectors are from their targets, alone and among each other."""
    away = 1 - (made * wanted).sum(-1).mean()
    truth = functional.softmax(wanted @ wanted.T / TEMPERATURE, -1)
    similarities = made @ wanted.T / TEMPERATURE
    relation = sum(
        functional.kl_div(functional.log_softmax(each, -1), truth, reduction="batchmean")
        for each in (similarities, similarities.T)
    )
    return COSINE_WEIGHT * away + RELATION_WEIGHT * relation


def rate_at(part: float) -> float:
    if part < WARM_UP:
        return part / WARM_UP
    return LOWEST_RATE + (1 - LOWEST_RATE) * 0.5 * (1 + math.cos(math.pi * (part - WARM_UP) / (1 - WARM_UP)))


@torch.no_grad()
def centre(encoder: Encoder, words: Tensor, rows: Rows, places: np.ndarray) -> None:
    """Move the mean of the student's vectors to 0, where the targets have theirs."""
    means = [encoder(words[rows.block(places[n : n + 1]).to(words.device)].bfloat16()) for n in range(len(places))]
    encoder.layers[-1].thought.bias -= torch.cat(means).mean(0)


def save(folder: Path, encoder: Encoder, words: Tensor) -> None:
    weights = {name: values.astype(np.float16) for name, values in to_bert(encoder, words).items()}
    np.savez(folder / "student.partial.npz", **weights)
    (folder / "student.partial.npz").replace(folder / "student.npz")


@dataclass(frozen=True)
class Shared:
    """What the workers share: vectors of words, and the gradients of all others for the length of a step."""

    words: Words
    gradients: Tensor
    part: Tensor
    """Of the time that is over; told by the first worker."""
    step: Any
    """Barrier that all workers reach twice a step."""
    writing: Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("start", type=Path, help="the model of 6 layers that the student starts from")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--tokens", type=int, default=8192 if DEVICE == "cpu" else 98_304, help="of a step")
    parser.add_argument("--rate", type=float, default=2.5e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--workers", type=int, default=(os.cpu_count() or 1) if DEVICE == "cpu" else 1)
    options = parser.parse_args()
    encoder, vectors = from_bert(read_weights(options.resume or options.start))
    if not options.resume:
        vectors = torch.from_numpy(np.load(options.folder / "start.npy").astype(np.float32))
    if DEVICE == "cpu":
        kernel()  # compiled once, before the workers need it
    size = sum(each.numel() for each in encoder.parameters())
    context = torch.multiprocessing.get_context("spawn")
    shared = Shared(
        Words(vectors.to(DEVICE)),
        torch.zeros(options.workers, size, device=DEVICE),
        torch.zeros(1),
        context.Barrier(options.workers),
        context.Lock(),
    )
    if options.workers == 1:
        work(0, options, encoder, shared)
        return
    for tensor in (*shared.words.tensors, shared.gradients, shared.part):
        tensor.share_memory_()
    torch.multiprocessing.start_processes(work, (options, encoder, shared), options.workers, start_method="spawn")


def work(number: int, options: argparse.Namespace, encoder: Encoder, shared: Shared) -> None:
    """One worker: its own texts, the gradients of all, and so the same layers as every other."""
    if DEVICE == "cpu":
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // options.workers))
    torch.manual_seed(options.seed + number)
    draw = np.random.default_rng(options.seed)
    stored = np.load(options.folder / "texts.npz")
    rows, target, language = Rows(stored["student"], stored["student_ends"]), stored["target"], stored["language"]
    targets = torch.from_numpy(np.load(options.folder / "targets.npy")).to(DEVICE)
    encoder.to(DEVICE)
    words = shared.words
    fast = Encoder(len(encoder.layers)).to(DEVICE, torch.bfloat16)
    fast.load_state_dict(encoder.state_dict())
    if not options.resume:
        centre(fast, words.vectors, rows, draw.choice(np.flatnonzero(language == 0), 300))
        with torch.no_grad():
            encoder.layers[-1].thought.bias.copy_(fast.layers[-1].thought.bias)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=options.rate, betas=BETAS, weight_decay=0.0, fused=True)
    pairs = list(zip(encoder.parameters(), fast.parameters(), strict=True))
    began = saved = time.time()
    step = seen = skipped = 0
    sums: dict[str, list[float]] = {"en": [], "other": []}
    for epoch, places in blocks(rows, options, draw, number):
        ids = rows.block(places).to(DEVICE)
        if step % 2:
            hide = (torch.rand(ids.shape, device=DEVICE) < HIDDEN_SHARE) & (ids > FIRST_WORD)
            hide[:, :3] = False
            ids = torch.where(hide, HIDDEN_ID, ids)
        block = words[ids].bfloat16().requires_grad_()
        made = functional.normalize(fast(block), dim=-1)
        wanted = targets[torch.from_numpy(target[places]).to(DEVICE)].float()
        loss = loss_of(made, wanted)
        fast.zero_grad(set_to_none=True)
        loss.backward()
        with torch.no_grad():
            shared.gradients[number].copy_(torch.cat([copy.grad.flatten() for _, copy in pairs]))
            if number == 0:
                shared.part[0] = (time.time() - began) / 60 / options.minutes
            shared.step.wait()
            part, mean = float(shared.part[0]), shared.gradients.mean(0)
            shared.step.wait()
            for (master, _), gradient in zip(pairs, mean.split([each.numel() for each, _ in pairs]), strict=True):
                master.grad = gradient.view_as(master)
            norm = torch.nn.utils.clip_grad_norm_(encoder.parameters(), LARGEST_GRADIENT)
            rate = options.rate * rate_at(min(part, 1.0))
            if torch.isfinite(norm):  # the same for all workers
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
                for master, copy in pairs:
                    copy.copy_(master)
            if torch.isfinite(norm) and block.grad is not None and torch.isfinite(block.grad).all():
                with shared.writing:
                    words.update(ids, block.grad, rate * WORD_RATE)
            else:
                skipped += 1
        step, seen = step + 1, seen + ids.numel()
        if number:
            if part >= 1:
                return
            continue
        if step % 20 == 0:
            cosines = (made.detach() * wanted).sum(-1).cpu().numpy()
            for name, chosen in (("en", language[places] == 0), ("other", language[places] > 0)):
                sums[name] += cosines[chosen].tolist()
        if step % 200 == 0 or part >= 1:
            text = ", ".join(f"{name} {np.mean(values):.4f}" for name, values in sums.items() if values)
            rate = seen * options.workers / (time.time() - began)
            print(
                f"[{time.time() - began:6.0f}] step {step} epoch {epoch} part {part:.3f} cosine {text}; "
                f"{rate:.0f} tokens/s, {skipped} skipped",
                flush=True,
            )
            sums = {"en": [], "other": []}
        if part >= 1 or time.time() - saved > 60 * SAVE_MINUTES:
            save(options.folder, encoder, words.vectors)
            saved = time.time()
        if part >= 1:
            return


def blocks(
    rows: Rows, options: argparse.Namespace, draw: np.random.Generator, number: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the texts of each step for one worker, with the number of the epoch; all workers draw the same order."""
    for epoch in count(1):
        every = list(rows.blocks(options.tokens // options.workers, draw))
        whole = len(every) // options.workers * options.workers
        for places in every[number : whole : options.workers]:
            yield epoch, places


if __name__ == "__main__":
    main()
