"""nDCG@10 of vectors alone on collections in BEIR's layout."""

from __future__ import annotations

import json
import math
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

GERMAN = re.compile(
    r"\b(der|die|das|und|nicht|ein|eine|ist|mit|für|von|zu|im|den|auf|wird|wie|was|wer|welche[rs]?|wo|wann|dem|des)\b",
    re.I,
)
ENGLISH = re.compile(
    r"\b(the|and|of|to|in|is|was|for|that|with|as|on|by|what|who|which|how|when|where|did|does|are)\b", re.I
)

Embed = Callable[[list[str]], np.ndarray]


class Collection(NamedTuple):
    documents: dict[str, str]
    questions: dict[str, str]
    relevant: dict[str, dict[str, float]]


def read(archive: Path) -> Collection:
    content: dict[str, str] = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            name = Path(member.name).name
            if name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv") and (file := opened.extractfile(member)):
                content[name] = file.read().decode()
    relevant: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for line in content["qrels.tsv"].splitlines()[1:]:
        question, document, grade = line.split("\t")[:3]
        relevant[question][document] = float(grade)
    rows = [json.loads(line) for line in content["corpus.jsonl"].splitlines()]
    asked = [json.loads(line) for line in content["queries.jsonl"].splitlines()]
    return Collection(
        {row["_id"]: f"{row.get('title') or ''} {row.get('text') or ''}".strip() for row in rows},
        {row["_id"]: row["text"] for row in asked if row["_id"] in relevant},
        dict(relevant),
    )


def is_german(text: str) -> bool:
    return len(GERMAN.findall(text)) > len(ENGLISH.findall(text))


def routed(german: Embed, other: Embed) -> Embed:
    """Embed German texts with one encoder and all others with another."""

    def embed(texts: list[str]) -> np.ndarray:
        chosen = np.array([is_german(text) for text in texts])
        vectors = np.zeros((len(texts), 384), np.float32)
        for encoder, places in ((german, np.flatnonzero(chosen)), (other, np.flatnonzero(~chosen))):
            if len(places):
                vectors[places] = encoder([texts[place] for place in places])
        return vectors

    return embed


def ndcg(collection: Collection, embed: Embed) -> float:
    ids = list(collection.documents)
    scores = embed(list(collection.questions.values())) @ embed(list(collection.documents.values())).T
    total = 0.0
    for row, question in enumerate(collection.questions):
        grades = collection.relevant[question]
        best = np.argsort(-scores[row], kind="stable")[:10]
        gain = sum(grades.get(ids[place], 0.0) / math.log2(rank + 2) for rank, place in enumerate(best))
        ideal = sum(
            grade / math.log2(rank + 2) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:10])
        )
        total += gain / ideal if ideal else 0.0
    return total / len(collection.questions)
