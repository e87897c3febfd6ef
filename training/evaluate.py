"""Measures an encoder alone: nDCG@10 on collections in BEIR's layout, and everyday German.

python training/evaluate.py VOCABULARY WEIGHTS COLLECTION.tar.xz ... [--german PAIRS.tsv]
"""

from __future__ import annotations

import argparse
import json
import math
import tarfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from encoder import DEVICE, Encoder, Rows, embed, from_bert
from teachers import read_weights
from texts import fold
from torch import Tensor
from vocabulary import WINDOW_TOKENS, tokenizer

DEPTH, STEP = 10, 200


class Model:
    """An encoder with its tokenizer and prefixes."""

    def __init__(
        self,
        pieces: list[str],
        encoder: Encoder,
        words: Tensor,
        query: str = "query: ",
        passage: str = "passage: ",
        folds: bool = True,
    ) -> None:
        self._split = tokenizer(pieces)
        self._split.no_truncation()
        self._encoder, self._words = encoder.to(DEVICE, torch.bfloat16).eval(), words.to(DEVICE)
        self._fold = fold if folds else str
        self._prefixes = query, passage

    def queries(self, texts: list[str]) -> Tensor:
        return embed(
            self._encoder, self._words, Rows.of([ids[:WINDOW_TOKENS] for ids in self._ids(self._prefixes[0], texts)])
        )

    def passages(self, texts: list[str]) -> tuple[Tensor, Tensor]:
        """The vectors of all windows, and the text of each."""
        head = len(self._split.encode(self._prefixes[1]).ids) - 1
        windows, owners = [], []
        for number, ids in enumerate(self._ids(self._prefixes[1], texts)):
            if len(ids) <= WINDOW_TOKENS:
                windows.append(ids)
                owners.append(number)
                continue
            body = ids[head:-1]
            room = WINDOW_TOKENS - head - 1
            for start in range(0, max(1, len(body) - room + STEP), STEP):
                windows.append(np.concatenate([ids[:head], body[start : start + room], ids[-1:]]))
                owners.append(number)
        return embed(self._encoder, self._words, Rows.of(windows)), torch.tensor(owners)

    def _ids(self, prefix: str, texts: list[str]) -> list[np.ndarray]:
        return [
            np.array(each.ids, np.int32)
            for each in self._split.encode_batch([self._fold(prefix + text) for text in texts])
        ]


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
        best = torch.full((len(documents),), -2.0).scatter_reduce(0, owners, windows @ vector, "amax").numpy()
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
    return int((asked @ notes.T).argmax(1).eq(torch.arange(len(rows))).sum()), len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("collections", type=Path, nargs="*", default=[])
    parser.add_argument("--german", type=Path)
    parser.add_argument("--plain", action="store_true", help="no prefixes and no folding: MiniLM, gte")
    parser.add_argument("--start", type=Path, help="other word vectors")
    options = parser.parse_intermixed_args()
    pieces = options.vocabulary.read_text("utf-8").removesuffix("\n").split("\n")
    encoder, words = from_bert(read_weights(options.weights))
    if options.start:
        words = torch.from_numpy(np.load(options.start).astype(np.float32))
    model = Model(pieces, encoder, words, "", "", False) if options.plain else Model(pieces, encoder, words)
    if options.german:
        print("everyday German:", *everyday(model, options.german))
    figures = {}
    for path in options.collections:
        figures[path.name.split(".")[0]] = round(measure(model, path), 4)
        print(path.name.split(".")[0], figures[path.name.split(".")[0]], flush=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
