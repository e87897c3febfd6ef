"""The OpenAPI 3.1 document, generated from the endpoints and their models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from fourfold import __version__
from fourfold.model import Json
from fourfold.serve.http.answers import Problem
from fourfold.serve.http.endpoint import JSON, KEY_HEADER, Endpoint
from fourfold.serve.http.problems import MEDIA

_REF: Final = "#/components/schemas/{model}"
_PATH_PARAMETER: Final = re.compile(r"\{(\w+)(?::path)?\}")
_PARAMETERS: Final[Mapping[str, str]] = {
    "namespace": "A namespace; its first write creates it.",
    "id": "An id, or key:K.",
    "name": "The name of a node, or NAME#LABEL.",
}
_PROBLEM: Final[Json] = {
    "description": "An error, with the remedy.",
    "content": {MEDIA: {"schema": {"$ref": _REF.format(model="Problem")}}},
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Json]:
    models = {model for each in endpoints for model in (each.body, each.answer) if model is not None} | {Problem}
    modes: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in sorted(models, key=lambda model: model.__name__)
    ]
    _, schemas = models_json_schema(modes, by_alias=True, ref_template=_REF)
    paths: dict[str, dict[str, Json]] = {}
    for endpoint in endpoints:
        path = _PATH_PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fourfold", "version": __version__, "description": "Explained hybrid search over HTTP."},
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Json]:
    answer = _answer(endpoint)
    if endpoint.leads_to:
        answer["links"] = {name: _link(name, pointers) for name, pointers in endpoint.leads_to.items()}
    form: dict[str, Json] = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "description": f"Needs the scope {endpoint.scope}.",
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint.query), *_headers(endpoint)],
        "responses": {str(endpoint.status): answer, "default": _PROBLEM},
    }
    if endpoint.body is not None:
        schema = {"$ref": _REF.format(model=endpoint.body.__name__)}
        form["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    elif endpoint.takes != JSON:
        form["requestBody"] = {"required": True, "content": {endpoint.takes: {"schema": {"type": "string"}}}}
    return form


def _answer(endpoint: Endpoint) -> dict[str, Json]:
    if endpoint.answer is not None:
        schema: Json = {"$ref": _REF.format(model=endpoint.answer.__name__)}
        return {"description": "Done.", "content": {JSON: {"schema": schema}}}
    return {"description": "Done."} if endpoint.status == 204 else _plain(endpoint.media)


def _link(operation: str, pointers: Mapping[str, str]) -> dict[str, Json]:
    values = {name: f"$response.body#{pointer}" for name, pointer in pointers.items()}
    return {"operationId": operation, "parameters": {"path.namespace": "$request.path.namespace", **values}}


def _plain(media: str) -> dict[str, Json]:
    return {"description": "Done.", "content": {media: {"schema": {"type": "string"}}}}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Json]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARAMETERS[name],
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _PATH_PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(model: type[BaseModel] | None) -> list[dict[str, Json]]:
    if model is None:
        return []
    schema = model.model_json_schema(by_alias=True)
    required: Sequence[str] = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _without_null(form)}
        for name, form in schema["properties"].items()
    ]


def _without_null(form: Mapping[str, Any]) -> dict[str, Any]:
    """A query parameter is left out instead of null."""
    choices = [choice for choice in form.get("anyOf", ()) if choice != {"type": "null"}]
    kept = {name: value for name, value in form.items() if name not in ("anyOf", "default", "title")}
    return {**choices[0], **kept} if choices else kept


def _headers(endpoint: Endpoint) -> list[dict[str, Json]]:
    told = dict(endpoint.headers)
    if endpoint.writes:
        told[KEY_HEADER] = "A name for this request; if it is sent again with the same name, it is carried out once."
    return [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in told.items()
    ]
