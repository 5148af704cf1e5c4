"""The service described for programs: an OpenAPI document, made from the operations."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from alma import __version__

from ..operations import Effect, Operation, Parameter
from ..schema import RESULT, Definitions, Schema, described, is_object, limit_choices, object_schema
from .arguments import PROJECT_NAME
from .tokens import NEEDED

_IN_DOCUMENT = "#/components/schemas/"
_REFUSALS: Mapping[str, str] = {
    "400": "An argument, or the request as a whole, is not usable; the message says which and what is valid.",
    "401": "There is no token, or none that is known.",
    "403": "The token may not do this, or not in this project; or the page that asks is foreign.",
    "404": "There is no such thing.",
    "405": "Not with this method.",
    "408": "The body did not come in time.",
    "409": "Somebody else changed it in the meantime.",
    "413": "The request is too large.",
    "415": "The body is not application/json.",
    "421": "The request calls us by a name that is not ours.",
    "429": "Too many requests, or a budget is used up.",
    "500": "It failed inside.",
    "503": "The store is busy; try again.",
}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("type", "message", "request_id")},
            "required": ["type", "message", "request_id"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}


def document(operations: Mapping[str, Operation]) -> dict[str, Any]:
    definitions = Definitions()
    paths = {f"/v1/{name}": {"post": _operation(one, definitions)} for name, one in operations.items()}
    schemas = {name: _moved(one) for name, one in definitions.made.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ALMA memory",
            "version": __version__,
            "description": "Memory that learns from what worked. Every operation is a POST of its arguments.",
        },
        "security": [{"token": []}],
        "tags": [{"name": one} for one in dict.fromkeys(one.group for one in operations.values())],
        "paths": {**_around(), **paths},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**schemas, "Error": _ERROR},
            "responses": {code: _refusal(text) for code, text in _REFUSALS.items()},
            "parameters": {"Project": _PROJECT},
        },
    }


_PROJECT: Schema = {
    "name": "Alma-Project",
    "in": "header",
    "required": False,
    "description": "The project, percent-encoded. Without it: the token's only one, else the configured one.",
    "schema": {"type": "string", "pattern": f"^{PROJECT_NAME}$"},
}


def _operation(operation: Operation, definitions: Definitions) -> Schema:
    needs = any(one.needed for one in operation.parameters)
    body = {"required": needs, "content": {"application/json": {"schema": arguments_schema(operation)}}}
    return {
        "operationId": operation.name,
        "tags": [operation.group],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nNeeds a token that may {NEEDED[operation.effect]}.",
        "x-effect": str(operation.effect),
        "x-idempotent": operation.idempotent,
        "parameters": [{"$ref": "#/components/parameters/Project"}],
        "requestBody": body,
        "responses": _responses(_moved(answer_schema(operation, definitions))),
    }


def answer_schema(operation: Operation, definitions: Definitions) -> Schema:
    """Of the answer as it is sent: what is not an object is in one."""
    returned = operation.returns
    if is_object(returned):
        return object_schema(returned, definitions)
    inner = described(returned, definitions)
    return {"type": "object", "properties": {RESULT: inner}, "required": [RESULT], "additionalProperties": False}


def arguments_schema(operation: Operation) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {one.name: _argument(one) for one in operation.parameters},
        "additionalProperties": False,
    }
    needed = [one.name for one in operation.parameters if one.needed]
    return {**schema, "required": needed} if needed else schema


def _argument(parameter: Parameter) -> Schema:
    """What has a default may be null as well, which then says nothing."""
    about = parameter.about
    if about.local and not about.uri:
        return {"type": "null", "description": f"{about.text}. Not over the network."}
    schema = limit_choices(described(parameter.type, Definitions()), about.choices)
    if about.local:
        schema = {**schema, "format": "uri", "pattern": "^(https?|s3|gs)://[!-~]+$"}
    told = {"description": about.text} if about.text else {}
    if parameter.needed:
        return {**schema, **told}
    default = parameter.default
    if not about.local and default is not None:
        told["default"] = default.value if isinstance(default, Enum) else default
    return {**_nullable(schema), **told}


def _nullable(schema: Schema) -> Schema:
    options = schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    if not schema or {"type": "null"} in options:
        return schema
    return {"anyOf": [*options, {"type": "null"}]}


def _responses(answer: Schema) -> Schema:
    told = {"200": {"description": "Done.", "content": {"application/json": {"schema": answer}}}}
    return told | {code: {"$ref": f"#/components/responses/{code}"} for code in _REFUSALS}


def _refusal(text: str) -> Schema:
    return {"description": text, "content": {"application/json": {"schema": {"$ref": f"{_IN_DOCUMENT}Error"}}}}


def _around() -> Schema:
    """What there is beside the operations."""
    listed = {
        "type": "object",
        "properties": {
            "operations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "summary": {"type": "string"},
                        "group": {"type": "string"},
                        "effect": {"type": "string", "enum": [str(one) for one in Effect]},
                        "idempotent": {"type": "boolean"},
                        "scope": {"type": "string"},
                    },
                    "required": ["name", "summary", "group", "effect", "idempotent", "scope"],
                },
            }
        },
        "required": ["operations"],
    }
    alive: Schema = {
        "type": "object",
        "properties": {"status": {"type": "string", "enum": ["ok"]}},
        "required": ["status"],
    }
    ready: Schema = {"type": "object", "properties": {"ready": {"type": "boolean"}}, "required": ["ready"]}
    return {
        "/health": _without_token(_get("health_check", "Whether the service is there. Needs no token.", alive)),
        "/ready": _without_token(_get("readiness", "Whether the memory can be read. Needs no token.", ready)),
        "/metrics": _get("metrics", "Figures for Prometheus.", None, [{"$ref": "#/components/parameters/Project"}]),
        "/v1/operations": _get("operations", "All operations.", listed),
    }


def _get(name: str, summary: str, answer: Schema | None, parameters: list[Schema] | None = None) -> Schema:
    responses = _responses(answer or {})
    if answer is None:
        responses["200"] = {"description": "Done.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    return {"get": {"operationId": name, "summary": summary, "parameters": parameters or [], "responses": responses}}


def _without_token(path: Schema) -> Schema:
    return {"get": {**path["get"], "security": []}}


def _moved(schema: Any) -> Any:
    """The same, with its references to where the definitions are in the document."""
    if isinstance(schema, list):
        return [_moved(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: str(one).replace("#/$defs/", _IN_DOCUMENT) if name == "$ref" else _moved(one)
        for name, one in _alike(schema).items()
    }


def _alike(schema: Schema) -> Schema:
    """A list of so many of the same is told as that: fewer readers know of places that differ."""
    places = schema.get("prefixItems")
    if not isinstance(places, list) or any(one != places[0] for one in places):
        return schema
    return {**{name: one for name, one in schema.items() if name != "prefixItems"}, "items": places[0]}
