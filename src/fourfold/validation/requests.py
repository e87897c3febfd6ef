"""Rules for the arguments of requests: filters, ranges, pages."""

from __future__ import annotations

from dataclasses import replace

from fourfold import limits
from fourfold.arguments import check_fields
from fourfold.errors import InvalidItem, InvalidQuery
from fourfold.filters import read_where
from fourfold.filters.conditions import OPERATORS, stored_form
from fourfold.model import NO_FILTERS, Filters, GivenFilters, MetadataTest
from fourfold.validation.values import (
    checked_tags,
    clean_text,
    in_utc,
    is_whole,
    known_language,
    known_source,
    optional_name,
)


def checked_filters(given: GivenFilters | None) -> Filters:
    """Return the filters in the form in which items are stored; raise InvalidQuery if they are not valid."""
    if given is None or given is NO_FILTERS:
        return NO_FILTERS
    filters = given if isinstance(given, Filters) else Filters(where=given)
    if filters == NO_FILTERS:
        return NO_FILTERS
    check_fields(filters, Filters, InvalidQuery)
    if max(len(filters.tags), len(filters.metadata)) > limits.TAGS:
        raise InvalidQuery(f"more than {limits.TAGS} tags or tests of metadata", "Filter by fewer")
    try:
        checked = replace(
            filters,
            tags=checked_tags(filters.tags),
            created_from=None if filters.created_from is None else in_utc(filters.created_from),
            created_to=None if filters.created_to is None else in_utc(filters.created_to),
            kind=optional_name(filters.kind, "kind"),
            language=known_language(filters.language),
            path=optional_name(filters.path, "path"),
            source=None if filters.source is None else known_source(filters.source),
            subject=optional_name(filters.subject, "subject"),
            metadata=tuple(_checked_test(test) for test in filters.metadata),
            where=None if filters.where is None else read_where(filters.where),
        )
    except InvalidItem as error:
        raise InvalidQuery(f"filter: {error.message}", error.remedy) from error
    return NO_FILTERS if checked.condition is None else checked  # raises InvalidQuery for an invalid condition


def _checked_test(test: MetadataTest) -> MetadataTest:
    check_fields(test, MetadataTest, InvalidQuery)
    if test.op not in OPERATORS:
        raise InvalidItem(f"unknown operator {test.op!r}", f"The operators are {', '.join(OPERATORS)}")
    clean_text(test.key, "metadata key")
    return replace(test, value=stored_form(test.value))


def check_range(name: str, value: int, most: int) -> None:
    if not is_whole(value, 1) or value > most:
        raise InvalidQuery(f"{name} is {value!r}", f"Give a whole number from 1 to {most}")


def check_page(limit: int, offset: int) -> None:
    if not is_whole(limit, 1) or limit > limits.PAGE_SIZE or not is_whole(offset, 0):
        raise InvalidQuery(
            f"limit {limit!r}, offset {offset!r}", f"Give a limit of 1 to {limits.PAGE_SIZE} and an offset of 0 or more"
        )
