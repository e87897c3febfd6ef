"""What the tools take: parameters as models read them, and filters made of them."""

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Annotated, Any

from pydantic import Field

from fourfold.errors import InvalidQuery
from fourfold.model import Filters, Json, MetadataTest

_LONGEST_DATE = len("2026-11-15")

Query = Annotated[str, Field(description="What to look for: a question, keywords, names. Any text is safe.")]
TopK = Annotated[int | None, Field(description="How many results, 1 to 100. Default: the preset's, mostly 10.")]
MaxTokens = Annotated[
    int | None,
    Field(description="About how many tokens the results may have; long texts become snippets. Default 4000."),
]
MinConfidence = Annotated[float | None, Field(description="Leave out results below this confidence, 0 to 1.")]
Namespace = Annotated[str | None, Field(description="Another namespace than the server's. Leave out unless told.")]
ItemId = Annotated[int | str, Field(description='The id of a memory, or "key:K" for the one stored under the key K.')]
Tags = Annotated[list[str] | None, Field(description="Only memories with all of these tags.")]
AnyTag = Annotated[bool, Field(description="With true, one of the tags is enough.")]
From = Annotated[str | None, Field(description="Only what was created at this ISO date or time, or later.")]
To = Annotated[str | None, Field(description="Only what was created up to this ISO date (that day included) or time.")]
Kind = Annotated[str | None, Field(description="Only memories of this kind, such as decision.")]
Language = Annotated[str | None, Field(description="Only texts in this language (ISO 639-1, such as de).")]
PathGlob = Annotated[str | None, Field(description="Only chunks of files whose path matches, such as docs/**.")]
Metadata = Annotated[
    dict[str, Any] | None,
    Field(description='Only where metadata fits: {"floor": 4}, or {"floor": {"gte": 2, "lt": 5}}.'),
]


def _moment(text: str | None, *, end: bool = False) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if end and len(text.strip()) <= _LONGEST_DATE:
            moment = datetime.combine(moment, time.max)
    except ValueError as error:
        raise InvalidQuery(f"{text!r} is not a time", "Write 2026-11-15 or 2026-11-15T10:00:00Z") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _tests(metadata: Mapping[str, Json] | None) -> tuple[MetadataTest, ...]:
    tests: list[MetadataTest] = []
    for key, wanted in (metadata or {}).items():
        match wanted:
            case {"lt": low, "gte": high, **rest} if not rest:
                tests += [MetadataTest(key, "lt", low), MetadataTest(key, "gte", high)]
            case {"lt": bound, **rest} if not rest:
                tests.append(MetadataTest(key, "lt", bound))
            case {"gte": bound, **rest} if not rest:
                tests.append(MetadataTest(key, "gte", bound))
            case _:
                tests.append(MetadataTest(key, "eq", wanted))
    return tuple(tests)


def read_filters(
    tags: list[str] | None = None,
    any_tag: bool = False,
    created_from: str | None = None,
    created_to: str | None = None,
    kind: str | None = None,
    language: str | None = None,
    path: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Filters:
    return Filters(
        tuple(tags or ()), any_tag, _moment(created_from), _moment(created_to, end=True), kind, language, path,
        _tests(metadata),
    )  # fmt: skip
