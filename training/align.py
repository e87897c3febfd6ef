"""Align the paragraphs of two versions of one document, in English and in German."""

from __future__ import annotations

import re
from dataclasses import dataclass

GERMAN_IS_LONGER_BY = 1.15
COST_OF_SKIPPING = 0.45
LARGEST_TABLE = 600_000
ANCHOR = re.compile(r"\d{2,}|[A-Z]{3,}|--?\w+")


@dataclass(frozen=True)
class Block:
    """A paragraph with the kind of element that holds it."""

    kind: str
    text: str


def pairs(english: list[Block], german: list[Block]) -> list[tuple[str, str]]:
    """Return pairs of paragraphs that translate each other, in the order of the documents.

    Documents of the same structure are paired by place. Others are aligned by the lengths of their paragraphs, the
    kinds of element, and the numbers and names that translations share.
    """
    if [block.kind for block in english] == [block.kind for block in german]:
        return [(one.text, other.text) for one, other in zip(english, german, strict=True)]
    most = max(len(english), len(german))
    if len(english) * len(german) > LARGEST_TABLE or abs(len(english) - len(german)) > 0.4 * most:
        return []
    return _aligned(english, german)


def _distance(one: Block, other: Block) -> float:
    first, second = len(one.text), len(other.text) / GERMAN_IS_LONGER_BY
    return abs(first - second) / (max(first, second) + 8)


def _aligned(english: list[Block], german: list[Block]) -> list[tuple[str, str]]:
    rows, columns = len(english), len(german)
    english_anchors = [frozenset(ANCHOR.findall(block.text)) for block in english]
    german_anchors = [frozenset(ANCHOR.findall(block.text)) for block in german]
    band = abs(rows - columns) + 40
    cost = [[float("inf")] * (columns + 1) for _ in range(rows + 1)]
    step = [[""] * (columns + 1) for _ in range(rows + 1)]
    cost[0][0] = 0.0
    for row in range(rows + 1):
        middle = row * columns // max(rows, 1)
        for column in range(max(0, middle - band), min(columns, middle + band) + 1):
            choices = []
            if row and column:
                match = _distance(english[row - 1], german[column - 1])
                match += 0.5 * (english[row - 1].kind != german[column - 1].kind)
                match -= 0.3 * bool(english_anchors[row - 1] & german_anchors[column - 1])
                choices.append((cost[row - 1][column - 1] + match, "both"))
            if row:
                choices.append((cost[row - 1][column] + COST_OF_SKIPPING, "english"))
            if column:
                choices.append((cost[row][column - 1] + COST_OF_SKIPPING, "german"))
            if choices:
                cost[row][column], step[row][column] = min(choices)
    found: list[tuple[str, str]] = []
    row, column = rows, columns
    while row and column and step[row][column]:
        match step[row][column]:
            case "both":
                row, column = row - 1, column - 1
                if _distance(english[row], german[column]) < 0.35:
                    found.append((english[row].text, german[column].text))
            case "english":
                row -= 1
            case _:
                column -= 1
    return found[::-1]
