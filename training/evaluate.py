"""Measures an encoder alone: nDCG@10 on collections in BEIR's layout, and everyday German.

python training/evaluate.py VOCABULARY WEIGHTS COLLECTION.tar.xz ... [--german PAIRS.tsv]
"""

from __future__ import annotations

import argparse
import json
import math
import tarfile
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from data import END, WINDOW_TOKENS, Texts
from encoder import DEVICE, Encoder, embed, from_bert, with_translations
from teachers import WORDS, read_weights
from texts import PREFIXES, fold
from torch import Tensor
from vocabulary import tokenizer

DEPTH, STEP = 10, 200


class Model:
    """An encoder with its tokenizer; `plain` reads neither prefixes nor folded umlauts (MiniLM, gte)."""

    def __init__(self, pieces: list[str], encoder: Encoder, *, plain: bool = False) -> None:
        self._split = tokenizer(pieces)
        self._encoder = encoder.to(DEVICE).eval()
        self._fold = str if plain else fold
        self._prefixes = ("", "") if plain else PREFIXES

    def queries(self, texts: list[str]) -> Tensor:
        rows = self._ids(self._prefixes[0], texts)
        return self._vectors([ids if len(ids) <= WINDOW_TOKENS else [*ids[: WINDOW_TOKENS - 1], END] for ids in rows])

    def passages(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """The vectors of all windows, and the text of each."""
        head = len(self._split.encode(self._prefixes[1]).ids) - 1
        room = WINDOW_TOKENS - head - 1
        windows, owners = [], []
        for number, ids in enumerate(self._ids(self._prefixes[1], texts)):
            body = ids[head:-1]
            for start in range(0, max(1, len(body) - room + STEP), STEP):
                windows.append([*ids[:head], *body[start : start + room], END])
                owners.append(number)
        return self._vectors(windows), torch.tensor(owners, device=DEVICE)

    def _ids(self, prefix: str, texts: list[str]) -> list[list[int]]:
        return [each.ids for each in self._split.encode_batch([self._fold(prefix + text) for text in texts])]

    def _vectors(self, rows: list[list[int]]) -> Tensor:
        lengths = np.array([len(row) for row in rows])
        ids = np.fromiter(chain.from_iterable(rows), np.int32)
        unused = np.zeros(len(rows), np.int8)
        return embed(self._encoder, Texts(ids, np.cumsum(lengths) - lengths, lengths, unused, unused)).float()


def collection(path: Path) -> tuple[list[dict], list[dict], dict[str, dict[str, float]]]:
    contents: dict[str, str] = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            if file:
                contents[Path(member.name).name] = file.read().decode()
    judged: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for line in contents["qrels.tsv"].splitlines()[1:]:
        query, document, score = line.split("\t")[:3]
        judged[query][document] = float(score)
    documents, queries = (
        [json.loads(line) for line in contents[name].splitlines() if line.strip()]
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    return documents, [query for query in queries if query["_id"] in judged], judged


def measure(model: Model, path: Path) -> float:
    documents, queries, judged = collection(path)
    asked = model.queries([query["text"] for query in queries])
    windows, owners = model.passages(
        [f"{each.get('title') or ''} {each.get('text') or ''}".strip() for each in documents]
    )
    scopes = [(each.get("metadata") or {}).get("scope") for each in documents]
    sessions = [(each.get("metadata") or {}).get("session_no") for each in documents]
    total = 0.0
    for query, vector in zip(queries, asked, strict=True):
        nothing = torch.full((len(documents),), -2.0, device=DEVICE)
        best = nothing.scatter_reduce(0, owners, windows @ vector, "amax").cpu().numpy()
        about = query.get("metadata") or {}
        if about.get("scope"):
            hidden = [
                scope != about["scope"]
                or (number is not None and about.get("session_no") is not None and number >= about["session_no"])
                for scope, number in zip(scopes, sessions, strict=True)
            ]
            best[hidden] = -9
        gains = judged[query["_id"]]
        order = np.argsort(-best, kind="stable")[:DEPTH]
        gained = sum(gains.get(documents[place]["_id"], 0) / math.log2(rank + 2) for rank, place in enumerate(order))
        ideal = sum(
            gain / math.log2(rank + 2) for rank, gain in enumerate(sorted(gains.values(), reverse=True)[:DEPTH])
        )
        total += gained / ideal if ideal else 0
    return total / len(queries)


def everyday(model: Model, path: Path) -> tuple[int, int]:
    """How many questions have their own note first, of how many."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    asked = model.queries([row[0] for row in rows])
    notes, owners = model.passages([row[1] for row in rows])
    assert len(owners) == len(rows)
    return int((asked @ notes.T).argmax(1).eq(torch.arange(len(rows), device=DEVICE)).sum()), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("collections", type=Path, nargs="*", default=[])
    parser.add_argument("--german", type=Path)
    parser.add_argument("--plain", action="store_true", help="no prefixes and no folding: MiniLM, gte")
    parser.add_argument("--translations", type=Path, help="start vectors for the pieces that the weights lack")
    options = parser.parse_intermixed_args()
    pieces = options.vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    weights = read_weights(options.weights)
    if options.translations:
        weights[WORDS] = with_translations(weights[WORDS], len(pieces), dict(np.load(options.translations)))
    model = Model(pieces, from_bert(weights), plain=options.plain)
    if options.german:
        print("everyday German:", *everyday(model, options.german))
    figures = {}
    for path in options.collections:
        figures[path.name.split(".")[0]] = round(measure(model, path), 4)
        print(path.name.split(".")[0], figures[path.name.split(".")[0]], flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
