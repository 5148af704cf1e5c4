"""A loopback server that follows the published protocol of Pinecone (REST, version 2026-07) for dense indexes.

It keeps the limits of the service, keeps numbers of metadata as floats, and answers errors in the service's form.
With a lag, a write becomes visible only after so many further reads of its namespace.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from tests.stores.loopback import Answer, LoopbackServer, Request

KEY = "pcsk_secret-key-of-the-tests"
KILOBYTE, MEGABYTE = 1024, 1024 * 1024


class Namespace:
    """Vectors, the log of writes that are not visible yet, and positions in the log."""

    def __init__(self) -> None:
        self.vectors: dict[str, dict[str, Any]] = {}
        self.pending: list[tuple[int, dict[str, dict[str, Any] | None]]] = []
        self.committed = self.reconciled = 0

    def write(self, vectors: dict[str, dict[str, Any] | None], lag: int) -> int:
        """Append to the log; return the position."""
        self.committed += 1
        self.pending.append((lag, vectors))
        self._apply()
        return self.committed

    def read(self) -> dict[str, dict[str, Any]]:
        """Return what is visible; older writes come nearer to being visible."""
        visible = dict(self.vectors)
        self.pending = [(lag - 1, vectors) for lag, vectors in self.pending]
        self._apply()
        return visible

    def _apply(self) -> None:
        while self.pending and self.pending[0][0] <= 0:
            for id, vector in self.pending.pop(0)[1].items():
                self.vectors.pop(id, None)
                if vector is not None:
                    self.vectors[id] = vector
            self.reconciled += 1


class PineconeServer(LoopbackServer):
    """The control plane at `url`, and the data plane of each index below it."""

    def __init__(self) -> None:
        super().__init__()
        self.indexes: dict[str, dict[str, Any]] = {}
        self.namespaces: dict[tuple[str, str], Namespace] = {}
        self.lag = 0

    def answer(self, request: Request) -> Answer:
        """Return the answer of the service."""
        if request.headers.get("api-key") != KEY:
            raise fail(401, "UNAUTHENTICATED", "Invalid API Key")
        if not request.headers.get("x-pinecone-api-version"):
            raise fail(400, "INVALID_ARGUMENT", "X-Pinecone-Api-Version is required")
        if match := re.fullmatch(r"/data/([^/]+)(/.+)", request.path):
            if match[1] not in self.indexes:
                raise fail(404, "NOT_FOUND", f"Resource {match[1]} not found")
            verb = getattr(self, "do" + match[2].replace("/", "_"), None)
            if verb is None:
                raise fail(404, "NOT_FOUND", request.path)
            return verb(request, match[1])
        return self._control(request)

    # --- control plane

    def _control(self, request: Request) -> Answer:
        name = request.path.removeprefix("/indexes").strip("/")
        if request.method == "POST" and not name:
            return self._create(request.json)
        if request.method == "GET" and not name:
            return Answer(200, {"indexes": list(self.indexes.values())})
        if name not in self.indexes:
            raise fail(404, "NOT_FOUND", f"Resource {name} not found")
        if request.method == "DELETE":
            del self.indexes[name]
            for key in [key for key in self.namespaces if key[0] == name]:
                del self.namespaces[key]
            return Answer(202)
        return Answer(200, self.indexes[name])

    def _create(self, body: dict[str, Any]) -> Answer:
        name = body["name"]
        if name in self.indexes:
            raise fail(409, "ALREADY_EXISTS", f"Resource {name} already exists")
        if not re.fullmatch(r"[a-z0-9-]{1,45}", name):
            raise fail(400, "INVALID_ARGUMENT", "Name must consist of lower case alphanumeric characters or '-'")
        (vector,) = body["schema"]["fields"].values()
        if vector["type"] != "dense_vector" or not 1 <= vector["dimension"] <= 20_000:
            raise fail(400, "INVALID_ARGUMENT", "Dimension must be between 1 and 20000")
        self.indexes[name] = {
            "name": name,
            "host": f"{self.url}/data/{name}",
            "schema": body["schema"],
            "deployment": {"environment": "aped-4627-b74a", **body["deployment"]},
            "deletion_protection": "disabled",
            "read_capacity": {"mode": "OnDemand", "status": {"state": "Ready"}},
            "status": {"ready": True, "state": "Ready"},
        }
        return Answer(201, self.indexes[name])

    def _dimension(self, index: str) -> int:
        (vector,) = self.indexes[index]["schema"]["fields"].values()
        return int(vector["dimension"])

    # --- data plane

    def _open(self, index: str, name: str) -> Namespace:
        return self.namespaces.setdefault((index, name or "__default__"), Namespace())

    def do_vectors_upsert(self, request: Request, index: str) -> Answer:
        """Add or replace vectors."""
        if len(request.body) > 2 * MEGABYTE:
            raise fail(413, "OUT_OF_RANGE", "Error, message length too large: the limit is 2097152 bytes")
        body = request.json
        if not 1 <= len(body["vectors"]) <= 1000:
            raise fail(400, "INVALID_ARGUMENT", "Upsert limit is 1000 vectors per request")
        vectors: dict[str, dict[str, Any] | None] = {}
        for vector in body["vectors"]:
            check_id(vector["id"])
            self._check_values(index, vector["values"])
            vectors[vector["id"]] = {**vector, "metadata": check_metadata(vector.get("metadata", {}))}
        position = self._open(index, body.get("namespace", "")).write(vectors, self.lag)
        return Answer(200, {"upsertedCount": len(vectors)}, {"x-pinecone-lsn-committed": str(position)})

    def _check_values(self, index: str, values: list[float]) -> None:
        if len(values) != self._dimension(index):
            message = (
                f"Vector dimension {len(values)} does not match the dimension of the index {self._dimension(index)}"
            )
            raise fail(400, "INVALID_ARGUMENT", message)
        if not any(values):
            raise fail(400, "INVALID_ARGUMENT", "Dense vectors must contain at least one non-zero value")

    def do_vectors_fetch(self, request: Request, index: str) -> Answer:
        """Return vectors by id."""
        ids, name = request.query["ids"], request.query.get("namespace", [""])[0]
        if len(ids) > 1000:
            raise fail(400, "INVALID_ARGUMENT", "Fetch limit is 1000 ids per request")
        visible = self._open(index, name).read()
        found = {id: visible[id] for id in ids if id in visible}
        return limited(Answer(200, {"vectors": found, "namespace": name, "usage": {"readUnits": 1}}))

    def do_vectors_fetch_by_metadata(self, request: Request, index: str) -> Answer:
        """Return a page of the vectors whose metadata meet a filter."""
        body = request.json
        if not body.get("filter"):
            raise fail(400, "INVALID_ARGUMENT", "Empty filter provided for fetch by metadata request")
        visible, limit = self._open(index, body.get("namespace", "")).read(), body.get("limit", 100)
        after = body.get("paginationToken", "")
        ids = sorted(id for id, one in visible.items() if id > after and meets(body["filter"], one["metadata"]))
        page = {"vectors": {id: visible[id] for id in ids[:limit]}, "namespace": body.get("namespace", "")}
        if len(ids) > limit:
            page["pagination"] = {"next": ids[limit - 1]}
        return limited(Answer(200, page))

    def do_vectors_list(self, request: Request, index: str) -> Answer:
        """Return a page of ids with a prefix."""
        prefix, name, after, limit = (
            request.query.get(one, [default])[0]
            for one, default in (("prefix", ""), ("namespace", ""), ("paginationToken", ""), ("limit", "100"))
        )
        ids = sorted(id for id in self._open(index, name).read() if id.startswith(prefix) and id > after)
        page: dict[str, Any] = {"vectors": [{"id": id} for id in ids[: int(limit)]], "namespace": name}
        if len(ids) > int(limit):
            page["pagination"] = {"next": ids[int(limit) - 1]}
        return Answer(200, page)

    def do_vectors_delete(self, request: Request, index: str) -> Answer:
        """Delete vectors by id, by filter, or all."""
        body = request.json
        namespace = self._open(index, body.get("namespace", ""))
        ids = body.get("ids")
        if ids is not None and len(ids) > 1000:
            raise fail(400, "INVALID_ARGUMENT", "Delete limit is 1000 ids per request")
        if ids is None:
            ids = [id for id, one in namespace.vectors.items() if meets(body.get("filter", {}), one["metadata"])]
        position = namespace.write(dict.fromkeys(ids), self.lag)
        return Answer(200, {}, {"x-pinecone-lsn-committed": str(position)})

    def do_query(self, request: Request, index: str) -> Answer:
        """Return the nearest vectors that meet a filter."""
        body = request.json
        if not 1 <= body["topK"] <= 10_000:
            raise fail(400, "INVALID_ARGUMENT", "top_k must be between 1 and 10000")
        self._check_values(index, body["vector"])
        namespace = self._open(index, body.get("namespace", ""))
        position = namespace.reconciled
        hits = [
            {
                "id": id,
                "score": cosine(body["vector"], one["values"]),
                **({"metadata": one["metadata"]} if body["includeMetadata"] else {}),
            }
            for id, one in namespace.read().items()
            if meets(body.get("filter", {}), one["metadata"])
        ]
        # Ties come in no order that a client could rely on.
        hits.sort(key=lambda hit: (-hit["score"], hash(hit["id"])))
        answer = {"matches": hits[: body["topK"]], "namespace": body.get("namespace", ""), "usage": {"readUnits": 1}}
        return limited(Answer(200, answer, {"x-pinecone-lsn-reconciled": str(position)}))

    def do_describe_index_stats(self, request: Request, index: str) -> Answer:
        """Return the counts of vectors."""
        counts = {
            name: {"vectorCount": len(one.vectors)} for (owner, name), one in self.namespaces.items() if owner == index
        }
        total = sum(one["vectorCount"] for one in counts.values())
        stats = {
            "namespaces": counts,
            "dimension": self._dimension(index),
            "indexFullness": 0,
            "totalVectorCount": total,
        }
        return Answer(200, stats)


def fail(status: int, code: str, message: str, **headers: str) -> Answer:
    """Return an error in the service's form."""
    body = {"error": {"code": code, "message": message}, "status": status}
    return Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def limited(answer: Answer) -> Answer:
    """An answer must not be larger than 4 MB."""
    if len(json.dumps(answer.body)) > 4 * MEGABYTE:
        raise fail(400, "OUT_OF_RANGE", "The result is larger than 4 MB; choose a lower top_k")
    return answer


def check_id(id: str) -> None:
    """An id has 1 to 512 ASCII characters."""
    if not 1 <= len(id) <= 512 or not id.isascii() or "\0" in id:
        raise fail(
            400, "INVALID_ARGUMENT", f"Vector ID must be ASCII and 1 to 512 characters long, but got {id[:20]!r}"
        )


def check_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata as the service keeps them: texts, lists of texts, booleans and floats; 40 KB at most."""
    if len(json.dumps(metadata, ensure_ascii=False).encode()) > 40 * KILOBYTE:
        raise fail(400, "INVALID_ARGUMENT", "Metadata size is larger than the limit of 40960 bytes per vector")
    for name, value in metadata.items():
        is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not (isinstance(value, str | bool | int | float) or is_list) or name.startswith("$"):
            raise fail(
                400, "INVALID_ARGUMENT", f"Metadata value must be a string, number, boolean or list of strings: {name}"
            )
    return {
        name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        for name, value in metadata.items()
    }


def meets(condition: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """Return whether metadata meet a filter."""
    for name, test in condition.items():
        if name == "$and":
            if not all(meets(one, metadata) for one in test):
                return False
        elif name == "$or":
            if not any(meets(one, metadata) for one in test):
                return False
        else:
            tests = test if isinstance(test, dict) else {"$eq": test}
            if not all(compare(metadata.get(name), operator, value) for operator, value in tests.items()):
                return False
    return True


def compare(stored: Any, operator: str, value: Any) -> bool:
    """Return whether one comparison of a filter holds."""
    if operator == "$exists":
        return (stored is not None) == value
    if operator in ("$in", "$nin"):
        if not 1 <= len(value) <= 10_000:
            raise fail(400, "INVALID_ARGUMENT", f"{operator} takes 1 to 10000 values")
        among = any(one in value for one in (stored if isinstance(stored, list) else [stored]))
        return among == (operator == "$in")
    if operator in ("$eq", "$ne"):
        return (value in stored if isinstance(stored, list) else stored == value) == (operator == "$eq")
    if not isinstance(value, int | float):
        raise fail(400, "INVALID_ARGUMENT", f"the {operator} operator must be followed by a number, got {value!r}")
    if not isinstance(stored, float):
        return False
    return {"$gt": stored > value, "$gte": stored >= value, "$lt": stored < value, "$lte": stored <= value}[operator]


def cosine(one: list[float], other: list[float]) -> float:
    """Return the cosine of two vectors."""
    return (
        math.sumprod(one, other) / math.hypot(*one) / math.hypot(*other)
        if hasattr(math, "sumprod")
        else (sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other))
    )
