"""Near-duplicates: list and merge them."""

# No `from __future__ import annotations`: pydantic reads these annotations when the module is loaded.

from typing import Final

from pydantic import ConfigDict, Field
from starlette.responses import Response

from fourfold import limits
from fourfold.errors import NotFound
from fourfold.serve.http import answers, models
from fourfold.serve.http.endpoint import Call, Endpoint, reply
from fourfold.serve.http.forms import etag
from fourfold.serve.http.search_routes import NS
from fourfold.wire import duplicates_json, encode


class DuplicatesQuery(models.Request):
    limit: int = Field(50, ge=1, le=limits.PAGE_SIZE)


class MergeRequest(models.Request):
    model_config = ConfigDict(json_schema_extra={"example": {"keep": 1, "ids": [2]}})
    keep: models.ItemId
    ids: list[models.ItemId] = Field(max_length=limits.PAGE_SIZE, description="What is merged into the item to keep.")


def duplicates(call: Call) -> Response:
    return reply({"groups": [*map(duplicates_json, call.memory.duplicates(limit=call.query.limit))]})


def merge(call: Call) -> Response:
    body: MergeRequest = call.body
    try:
        item = call.memory.merge(body.keep, body.ids)
    except NotFound:
        if call.begun_before is None:
            raise
        (item,) = call.memory.get([body.keep])  # the interrupted attempt has merged them, all or none
    return reply(encode(item), headers={"etag": etag(item)})


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        f"{NS}/duplicates",
        duplicates,
        "List groups of items that say nearly the same",
        answers.DuplicatesAnswer,
        query=DuplicatesQuery,
    ),
    Endpoint(
        "POST",
        f"{NS}/items:merge",
        merge,
        "Merge items that say the same into one; undo of that one takes it back",
        answers.ItemAnswer,
        "write",
        MergeRequest,
    ),
)
