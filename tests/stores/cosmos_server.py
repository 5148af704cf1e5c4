"""A loopback server that follows the published protocol of Azure Cosmos DB for NoSQL (REST, gateway mode).

It checks the signature of each request, keeps the limits of the service, and answers errors in the service's form. Of
the query language it knows what a store needs. A query with `VectorDistance` is answered as for a partitioned
container: the client is asked to fetch a plan, and then runs the rewritten query on each range of partition keys.
"""

from __future__ import annotations

import hmac
import json
import math
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from itertools import count
from typing import Any
from urllib.parse import unquote

from tests.stores.loopback import Answer, LoopbackServer, Request

KEY = b64encode(b"the secret key of the loopback server of the tests, 64 bytes long").decode()
MEGABYTE = 1024 * 1024


class CosmosServer(LoopbackServer):
    """An account with one region."""

    page = 100  # Items in an answer; the service chooses it by size and time.

    def __init__(self) -> None:
        super().__init__()
        self.databases: dict[str, dict[str, Any]] = {}
        self.containers: dict[tuple[str, str], dict[str, Any]] = {}
        self.items: dict[tuple[str, str], dict[tuple[str, str], dict[str, Any]]] = {}
        self._numbers = count(1)

    def answer(self, request: Request) -> Answer:
        """Return the answer of the service."""
        parts = [part for part in request.path.split("/") if part]
        self._check_signature(request, parts)
        if not parts:
            return self._describe_account()
        if parts[0] != "dbs":
            raise fail(404, "NotFound", "Resource Not Found")
        if len(parts) == 1:
            return self._create(self.databases, request.json["id"], request.json)
        database = parts[1]
        if database not in self.databases:
            raise fail(404, "NotFound", "Resource Not Found. The database does not exist.", sub_status=1003)
        if len(parts) == 2:
            return Answer(200, self.databases[database])
        if len(parts) == 3:
            if request.method == "GET":
                containers = [one for (owner, _), one in self.containers.items() if owner == database]
                return Answer(200, {"_rid": "", "DocumentCollections": containers, "_count": len(containers)})
            return self._create_container(database, request.json)
        key = (database, parts[3])
        if key not in self.containers:
            raise fail(404, "NotFound", "Resource Not Found. The container does not exist.", sub_status=1003)
        if len(parts) == 4:
            if request.method == "DELETE":
                del self.containers[key], self.items[key]
                return Answer(204)
            return Answer(200, self.containers[key])
        if parts[4] == "pkranges":
            return self._list_ranges(request)
        return self._answer_items(request, key, parts[5] if len(parts) > 5 else "")

    # --- account, databases, containers

    def _check_signature(self, request: Request, parts: list[str]) -> None:
        """The signature covers the verb, the type and the link of the resource, and the date."""
        is_feed = len(parts) % 2 == 1
        kind = parts[-1] if is_feed else parts[-2] if parts else ""
        link = "/".join(parts[:-1] if is_feed else parts)
        text = f"{request.method.lower()}\n{kind}\n{link}\n{request.headers['x-ms-date'].lower()}\n\n"
        expected = b64encode(hmac.new(b64decode(KEY), text.encode(), sha256).digest()).decode()
        if unquote(request.headers.get("authorization", "")) != f"type=master&ver=1.0&sig={expected}":
            message = "The input authorization token can't serve the request. The wrong key is being used."
            raise fail(401, "Unauthorized", message)

    def _describe_account(self) -> Answer:
        place = [{"name": "Test", "databaseAccountEndpoint": self.url}]
        account = {
            "id": "test",
            "_rid": "test.documents.azure.com",
            "writableLocations": place,
            "readableLocations": place,
            "enableMultipleWriteLocations": False,
            "userConsistencyPolicy": {"defaultConsistencyLevel": "Session"},
            "queryEngineConfiguration": "{}",
        }
        return Answer(200, account)

    def _stamp(self, resource: dict[str, Any]) -> dict[str, Any]:
        """Return a resource with system properties; each version has another etag."""
        number = next(self._numbers)
        return {**resource, "_rid": f"rid{number}", "_self": "", "_etag": f'"{number:032x}"', "_ts": 1_767_000_000}

    def _create(self, resources: dict[Any, dict[str, Any]], key: Any, body: dict[str, Any]) -> Answer:
        if key in resources:
            raise fail(409, "Conflict", "Resource with specified id or name already exists.")
        resources[key] = self._stamp(body)
        return Answer(201, resources[key])

    def _create_container(self, database: str, body: dict[str, Any]) -> Answer:
        indexes = body.get("indexingPolicy", {}).get("vectorIndexes", [])
        vectors = body.get("vectorEmbeddingPolicy", {}).get("vectorEmbeddings", [])
        if {one["path"] for one in indexes} - {one["path"] for one in vectors}:
            raise fail(400, "BadRequest", "The vector index has no matching vector embedding policy.")
        for one in vectors:
            most = 505 if indexes and indexes[0]["type"] == "flat" else 4096
            if not 1 <= one["dimensions"] <= most:
                raise fail(400, "BadRequest", f"The Vector Embedding Policy has dimensions larger than {most}.")
        answer = self._create(self.containers, (database, body["id"]), body)
        self.items[database, body["id"]] = {}
        return answer

    def _list_ranges(self, request: Request) -> Answer:
        ranges = [{"id": "0", "_rid": "r", "minInclusive": "", "maxExclusive": "FF", "status": "online", "parents": []}]
        if request.headers.get("if-none-match") == '"ranges"':
            return Answer(304, None, {"etag": '"ranges"'})
        return Answer(200, {"_rid": "r", "PartitionKeyRanges": ranges, "_count": 1}, {"etag": '"ranges"'})

    # --- items

    def _answer_items(self, request: Request, key: tuple[str, str], id: str) -> Answer:
        items, headers = self.items[key], request.headers
        if headers.get("x-ms-cosmos-is-query-plan-request") == "True":
            return plan_query(request.json)
        if headers.get("x-ms-documentdb-isquery") == "true":
            return self._answer_query(request, items)
        (part,) = json.loads(headers["x-ms-documentdb-partitionkey"])
        if headers.get("x-ms-cosmos-is-batch-request"):
            return self._run_batch(request, items, part)
        if request.method == "GET":
            return with_etag(self._read(items, part, id))
        verb = {"PUT": "Replace", "DELETE": "Delete", "POST": "Create"}[request.method]
        if verb == "Create" and headers.get("x-ms-documentdb-is-upsert") == "True":
            verb = "Upsert"
        operation = {"operationType": verb, "id": id, "resourceBody": request.json, "ifMatch": headers.get("if-match")}
        status, item = self._run(items, part, operation)
        return with_etag(item, status)

    def _read(self, items: dict[tuple[str, str], dict[str, Any]], part: str, id: str) -> dict[str, Any]:
        if (part, id) not in items:
            raise fail(404, "NotFound", "Entity with the specified id does not exist in the system.")
        return items[part, id]

    def _run(
        self, items: dict[tuple[str, str], dict[str, Any]], part: str, operation: dict[str, Any]
    ) -> tuple[int, dict[str, Any] | None]:
        """Run one operation; return its status and the item."""
        verb, body = operation["operationType"], operation.get("resourceBody")
        id = operation.get("id") or body["id"]
        if verb in ("Replace", "Delete", "Read"):
            present = self._read(items, part, id)
            if operation.get("ifMatch") not in (None, "*", present["_etag"]):
                raise fail(
                    412, "PreconditionFailed", "Operation cannot be performed because a precondition is not met."
                )
        if verb == "Read":
            return 200, items[part, id]
        if verb == "Delete":
            del items[part, id]
            return 204, None
        if verb == "Create" and (part, id) in items:
            raise fail(409, "Conflict", "Entity with the specified id already exists in the system.")
        if not 1 <= len(id.encode()) <= 1023 or re.search(r"[/\\?#]", id):
            raise fail(400, "BadRequest", "The id is too long or has a character that is not allowed.")
        if body["part"] != part:
            raise fail(400, "BadRequest", "PartitionKey extracted from document doesn't match the one in the header.")
        if len(json.dumps(body, ensure_ascii=False).encode()) > 2 * MEGABYTE:
            raise fail(413, "RequestEntityTooLarge", "Request size is too large")
        status = 200 if (part, id) in items else 201
        items[part, id] = self._stamp(body)
        return status, items[part, id]

    def _run_batch(self, request: Request, items: dict[tuple[str, str], dict[str, Any]], part: str) -> Answer:
        operations = request.json
        if len(operations) > 100:
            raise fail(400, "BadRequest", "Batch request has more operations than what is supported.")
        if len(request.body) > 2 * MEGABYTE + 65536:
            raise fail(413, "RequestEntityTooLarge", "Request size is too large")
        before, results = dict(items), []
        for operation in operations:
            try:
                status, item = self._run(items, part, operation)
                results.append({"statusCode": status, "requestCharge": 1, "eTag": (item or {}).get("_etag")})
            except Answer as answer:
                items.clear()
                items.update(before)
                results = [{"statusCode": 424, "requestCharge": 0} for _ in operations]
                results[operations.index(operation)]["statusCode"] = answer.status
                return Answer(207, results)
        return Answer(200, results)

    # --- queries

    def _answer_query(self, request: Request, items: dict[tuple[str, str], dict[str, Any]]) -> Answer:
        query = request.json
        text, values = query["query"], {one["name"]: one["value"] for one in query.get("parameters", ())}
        is_rewritten = "x-ms-documentdb-partitionkeyrangeid" in request.headers
        if "VectorDistance" in text and not is_rewritten:
            raise fail(
                400,
                "BadRequest",
                "The provided cross partition query can not be served by the gateway.",
                sub_status=1004,
            )
        (part,) = json.loads(request.headers.get("x-ms-documentdb-partitionkey", "[null]"))
        rows = Query(text, values).run([one for (owner, _), one in items.items() if part in (None, owner)])
        start = int(request.headers.get("x-ms-continuation") or 0)
        size = min(int(request.headers.get("x-ms-max-item-count") or self.page), self.page)
        size = self.page if size < 1 else size
        headers = {"x-ms-item-count": str(len(rows[start : start + size])), "x-ms-request-charge": "1"}
        if start + size < len(rows):
            headers["x-ms-continuation"] = str(start + size)
        page = rows[start : start + size]
        return Answer(200, {"_rid": "r", "Documents": page, "_count": len(page)}, headers)


TOKENS = re.compile(r'\s*(@\w+|c(?:\.\w+|\["\w+"\])+|\w+|>=|<=|[(),])')
ORDERED = re.compile(
    r"SELECT TOP (@\w+) (?P<selection>.*) FROM c WHERE (?P<tests>.*) ORDER BY VectorDistance\(c\.(\w+), (@\w+)\)"
)


class Query:
    """The small part of the query language that is known here; anything else is a syntax error."""

    def __init__(self, text: str, values: dict[str, Any]) -> None:
        self.values = values
        match = re.fullmatch(r"SELECT (?:TOP (@\w+) )?(.*?) FROM c WHERE (.*?)(?: ORDER BY (.*))?", text)
        if match is None:
            raise fail(400, "BadRequest", f"Syntax error in {text[:200]}")
        self.top = values[match[1]] if match[1] else None
        self.selection, self.order = [one.strip() for one in re.split(r",(?![^(]*\))", match[2])], match[4]
        self.tests = [self._parse(test) for test in re.split(r" AND (?![^(]*\))", match[3])]

    def run(self, items: list[dict[str, Any]]) -> list[Any]:
        """Return the rows."""
        rows = [item for item in items if all(test(item) for test in self.tests)]
        if not self.order:
            return [self._select(item) for item in rows][: self.top]
        # Ties come in no order that a client could rely on.
        rows = [item for item in rows if self._measure(self.order, item) is not None]
        rows.sort(key=lambda item: (-self._measure(self.order, item), hash(item["id"])))
        return [
            {"orderByItems": [{"item": self._measure(self.order, item)}], "payload": self._select(item)}
            for item in rows
        ][: self.top]

    def _select(self, item: dict[str, Any]) -> dict[str, Any]:
        row = {}
        for one in self.selection:
            path, _, name = one.partition(" AS ")
            value = self._measure(path, item) if name else read_path(path, item)
            row[name or path.removeprefix("c.")] = value
        return row

    def _measure(self, text: str, item: dict[str, Any]) -> float | None:
        match = re.fullmatch(r"VectorDistance\((c\.\w+), (@\w+)\)", text)
        if match is None:
            raise fail(400, "BadRequest", f"Syntax error in {text[:200]}")
        stored, asked = read_path(match[1], item), self.values[match[2]]
        if not stored or len(stored) != len(asked):
            return None
        dot = sum(a * b for a, b in zip(stored, asked, strict=True))
        return dot / (math.hypot(*stored) * math.hypot(*asked))

    def _parse(self, text: str) -> Any:
        if text == "true":
            return lambda item: True
        exists = re.fullmatch(r"EXISTS\(SELECT VALUE one FROM one IN (.+?) WHERE one IN \((.*)\)\)", text)
        among = exists or re.fullmatch(r"(\S+) IN \((.*)\)", text)
        if among:
            names = among[2].split(", ")
            if len(names) > 6000:
                raise fail(400, "BadRequest", "The query has too many values in IN.")
            path, values = among[1], {self.values[name] for name in names}
            if exists:
                return lambda item: any(one in values for one in read_path(path, item) or ())
            return lambda item: read_path(path, item) in values
        limit = re.fullmatch(r"(\S+) (>=|<=) (@\w+)", text)
        if limit is None:
            raise fail(400, "BadRequest", f"Syntax error in {text[:200]}")
        path, sign, bound = limit[1], limit[2], self.values[limit[3]]

        def compare(item: dict[str, Any]) -> bool:
            value = read_path(path, item)
            return isinstance(value, int) and (value >= bound if sign == ">=" else value <= bound)

        return compare


def read_path(path: str, item: dict[str, Any]) -> Any:
    """Return the value at `c.fields["kind"]`, None where there is nothing."""
    if not re.fullmatch(r'c(\.\w+|\["\w+"\])+', path):
        raise fail(400, "BadRequest", f"Syntax error in {path[:200]}")
    value: Any = item
    for name in re.findall(r"\w+", path)[1:]:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def plan_query(query: dict[str, Any]) -> Answer:
    """Return how a client runs a query on all ranges: the rewritten query, and how to merge the answers."""
    values = {one["name"]: one["value"] for one in query["parameters"]}
    top = Query(query["query"], values).top
    info = {
        "distinctType": "None",
        "top": top,
        "orderBy": ["Descending"],
        "orderByExpressions": [query["query"].partition(" ORDER BY ")[2]],
        "groupByExpressions": [],
        "aggregates": [],
        "rewrittenQuery": query["query"],
        "hasSelectValue": False,
        "hasNonStreamingOrderBy": True,
    }
    ranges = [{"min": "", "max": "FF", "isMinInclusive": True, "isMaxInclusive": False}]
    return Answer(200, {"partitionedQueryExecutionInfoVersion": 2, "queryInfo": info, "queryRanges": ranges})


def with_etag(item: dict[str, Any] | None, status: int = 200) -> Answer:
    """Return an answer with an item."""
    return Answer(status, item, {"etag": item["_etag"]} if item else {})


def fail(status: int, code: str, message: str, *, sub_status: int = 0, **headers: str) -> Answer:
    """Return an error in the service's form."""
    extra = {"x-ms-substatus": str(sub_status)} if sub_status else {}
    extra |= {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"code": code, "message": message}, extra)
