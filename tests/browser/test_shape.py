"""What the page reads from an answer is in the schema of the operation, so that a renamed field fails here."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from .conftest import PAGES, Dashboard, Opener

pytestmark = [pytest.mark.browser, pytest.mark.system]

RECORD = """
(() => {
  const reads = (window.__reads = new Set());
  const known = new WeakMap();
  const ignored = new Set(["then", "toJSON", "constructor", "valueOf", "toString", "length", "hasOwnProperty"]);
  const wrap = (value, path) => {
    if (typeof value !== "object" || value === null) return value;
    if (known.has(value)) return known.get(value);
    const proxy = new Proxy(value, { get(target, name) {
      const inner = Reflect.get(target, name);
      if (typeof name === "symbol" || typeof inner === "function" || ignored.has(name)) return inner;
      const next = Array.isArray(target) ? `${path}/*` : `${path}/${name}`;
      if (!Array.isArray(target)) reads.add(next);
      return wrap(inner, next);
    } });
    known.set(value, proxy);
    return proxy;
  };
  const json = Response.prototype.json;
  Response.prototype.json = async function () {
    const operation = this.url.split("/v1/")[1]?.split("?")[0];
    const body = await json.call(this);
    return operation && this.ok ? wrap(body, operation) : body;
  };
})();
"""


def list_fields(schema: dict[str, Any], parts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a schema with their references followed. A memory is one of its kinds, by `type`."""
    if "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        kinds = KINDS if name == "Memory" else ()
        typed = [{"properties": {"type": {"type": "string"}}}] if name in ("Memory", *KINDS) else []
        return [*list_fields(parts[name], parts), *(parts[one] for one in kinds if one in parts), *typed]
    found = [
        one for name in ("anyOf", "oneOf", "allOf") for each in schema.get(name, ()) for one in list_fields(each, parts)
    ]
    return found or [schema]


def has_path(schemas: list[dict[str, Any]], names: list[str], parts: dict[str, Any]) -> bool:
    """Return whether a path of names exists in one of the schemas."""
    if not names:
        return True
    name, rest = names[0], names[1:]
    for schema in schemas:
        inner: Any = None
        if name == "*":
            inner = schema.get("items")
        elif "properties" in schema:
            inner = schema["properties"].get(name)
            if inner is None and schema.get("additionalProperties") is True:
                inner = {}
        elif isinstance(schema.get("additionalProperties"), dict):
            inner = schema["additionalProperties"]
        elif schema in ({}, {"type": "object"}) or schema.get("additionalProperties") is True:
            inner = {}
        if inner is not None and (inner in ({}, True) or has_path(list_fields(inner, parts), rest, parts)):
            return True
    return False


KINDS = ("Rule", "Heuristic", "AntiPattern", "UserPreference", "DomainKnowledge", "Outcome", "Episode")
"""What a memory may be; the schema of an answer names only what all have."""
OWN = {"session", "sessions", "tokens", "session/end", "events"}
"""Answers that are no operation's."""
ALLOWED = {"browse/items/*/isGone", "list_changes/items/*/memories/*/after"}
"""What the page itself adds to an answer, and what it shows once the server sends it."""


def test_each_field_that_the_page_reads_is_in_the_schema(service: Dashboard, open_tab: Opener) -> None:
    headers = {"authorization": f"Bearer {service.token}"}
    document = httpx.get(f"{service.url}/openapi.json", headers=headers, trust_env=False, timeout=60).json()
    parts = document["components"]["schemas"]
    tab = open_tab(service, "admin")
    tab.page.context.add_init_script(RECORD)
    kinds = ("Pass --run", "Run the migrations", "Force-push", "early returns", "Tuesdays", "Deploy release 3")
    ids = {text: find_one(service, text)["id"] for text in kinds}
    service.call("update", memory_id=ids["Pass --run"], fields={"why": "it never ends"}, source="user")
    for address in [*PAGES, *(f"memory?id={one}" for one in ids.values())]:
        tab.show(address)
        if address.startswith("memory"):
            tab.page.locator(".detail button", has_text="History").click()
            tab.page.locator("dialog").wait_for()
            tab.settle()
            tab.page.keyboard.press("Escape")
    reads = set(tab.page.evaluate("[...window.__reads]"))
    operations = {one.split("/")[0] for one in reads} - OWN
    assert operations >= {"browse", "inspect", "inbox", "overview", "browse_sessions", "show_session", "explain_task",
                          "list_changes", "history", "usage", "configuration"}  # fmt: skip
    unknown = []
    for path in sorted(reads):
        operation, *names = path.split("/")
        if operation in OWN:
            continue
        answer = document["paths"][f"/v1/{operation}"]["post"]["responses"]["200"]
        schema = answer["content"]["application/json"]["schema"]
        if not has_path(list_fields(schema, parts), names, parts) and path not in ALLOWED:
            unknown.append(path)
    assert not unknown, "\n".join(unknown)
    print(f"{len(reads)} fields of {len(operations)} operations")


def test_a_renamed_field_would_be_noticed() -> None:
    parts = {"Page": {"properties": {"items": {"items": {"properties": {"version": {"type": "integer"}}}}}}}
    schemas = list_fields({"$ref": "#/components/schemas/Page"}, parts)
    assert has_path(schemas, ["items", "*", "version"], parts)
    assert not has_path(schemas, ["items", "*", "revision"], parts)


def find_one(service: Dashboard, text: str) -> dict[str, Any]:
    """Return the first memory whose JSON contains a text."""
    items = service.call("browse", statuses=[], limit=100)["items"]
    memory: dict[str, Any] = next(one["memory"] for one in items if text in json.dumps(one["memory"]))
    return memory
