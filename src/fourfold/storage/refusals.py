"""Errors about nodes, raw records and vector spaces: the same words on every store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from fourfold.errors import Ambiguous, NotFound, RequestError, SpaceMismatch
from fourfold.model import Space
from fourfold.text.entities import split_label, with_label


def ambiguous(name: str, labels: Iterable[str]) -> Ambiguous:
    """A name that several nodes share; the remedy shows what to write instead."""
    known = sorted(labels)
    forms = [with_label(name, label) for label in known if split_label(with_label(name, label)) == (name, label)]
    remedy = f"Write {' or '.join(forms)}" if forms else "Give the label, too"
    if len(set(known)) < len(known):
        remedy = "It is an alias: write the node's own name"
    return Ambiguous(f"{name!r} names {len(known)} nodes, with the labels {', '.join(known)}", remedy)


def no_node(reference: str) -> NotFound:
    name, label = split_label(reference)
    if label is None:
        return NotFound(
            f"no node {name!r}", "fourfold graph nodes --like TEXT finds names, fourfold graph node NAME makes one"
        )
    remedy = "Leave the label out, or write \\# for a # that belongs to the name"
    return NotFound(f"no node {name!r} with the label {label!r}", remedy)


# ---------------------------------------------------------------- raw records


SHOWN_ITEMS: Final = 5
"""Items that are named in the refusal."""


def no_raw(record: int) -> NotFound:
    return NotFound(f"no raw record {record}", "fourfold raw list shows what there is")


def still_a_source(record: int, items: Sequence[int]) -> RequestError:
    """`items`: some of those that it is a source of, at most one more than is shown."""
    named = ", ".join(map(str, items[:SHOWN_ITEMS])) + (" and others" if len(items) > SHOWN_ITEMS else "")
    return RequestError(
        f"raw record {record} is a source of item {named}",
        "Forget these items first, or use force: then their source_ids lose it",
    )


# ---------------------------------------------------------------- vectors


def other_space(known: Space, wanted: Space) -> SpaceMismatch:
    return SpaceMismatch(
        f"the vectors here come from {known.fingerprint}, not from {wanted.fingerprint}",
        "Use that embedder again, or compute all vectors again: fourfold reembed",
    )
