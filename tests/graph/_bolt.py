"""A server that speaks enough Bolt for Neo4j's driver, with an embedded Cypher engine behind it.

It shows that the driver is used rightly and that the queries are Cypher; it does not show that Neo4j or Memgraph plan
and lock as expected. Statements that make indexes and constraints are noted and not run: the engine has a schema of
its own.
"""

from __future__ import annotations

import socket
import struct
import threading
from typing import Any

from alma.errors import StorageError
from alma.graph.servers import KuzuEngine

HELLO, GOODBYE, LOGON, LOGOFF, RESET = 0x01, 0x02, 0x6A, 0x6B, 0x0F
RUN, BEGIN, COMMIT, ROLLBACK, DISCARD, PULL = 0x10, 0x11, 0x12, 0x13, 0x2F, 0x3F
SUCCESS, RECORD, IGNORED, FAILURE = 0x70, 0x71, 0x7E, 0x7F
VERSION = bytes((0, 0, 0, 5))


def packed(value: Any) -> bytes:
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xcb" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xc1" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        return b"\xd2" + struct.pack(">I", len(raw)) + raw
    if isinstance(value, list | tuple):
        return b"\xd6" + struct.pack(">I", len(value)) + b"".join(map(packed, value))
    return b"\xda" + struct.pack(">I", len(value)) + b"".join(packed(k) + packed(v) for k, v in value.items())


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def _size(self, width: int) -> int:
        return int.from_bytes(self._take(width), "big")

    def message(self) -> tuple[int, list[Any]]:
        count = self._size(1) & 0x0F
        return self._size(1), [self.value() for _ in range(count)]

    def value(self) -> Any:
        mark = self._size(1)
        if mark < 0x80 or mark >= 0xF0:
            return mark if mark < 0x80 else mark - 256
        if mark in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[mark]
        if 0xC8 <= mark <= 0xCB:
            return int.from_bytes(self._take(1 << (mark - 0xC8)), "big", signed=True)
        if mark == 0xC1:
            return struct.unpack(">d", self._take(8))[0]
        if mark >> 4 in (0x8, 0x9, 0xA):
            return self._filled(mark >> 4, mark & 0x0F)
        kind, widths = {0xD0: 0x8, 0xD4: 0x9, 0xD8: 0xA}[mark & 0xFC], (1, 2, 4)
        return self._filled(kind, self._size(widths[mark & 0x03]))

    def _filled(self, kind: int, size: int) -> Any:
        if kind == 0x8:
            return self._take(size).decode()
        if kind == 0x9:
            return [self.value() for _ in range(size)]
        return {self.value(): self.value() for _ in range(size)}


class BoltServer:
    """Takes any password but `wrong`."""

    def __init__(self, path: str) -> None:
        self.engine = KuzuEngine(path)
        self.engine.run("CREATE NODE TABLE IF NOT EXISTS AlmaGraph(project STRING PRIMARY KEY, writes INT64)")
        self.schema: list[str] = []
        self.queries: list[str] = []
        self._turn = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.uri = f"bolt://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        self.engine.close()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_Conversation(self, peer, self._turn).run, daemon=True).start()


class _Conversation:
    def __init__(self, server: BoltServer, peer: socket.socket, turn: threading.Lock) -> None:
        self._server = server
        self._file = peer.makefile("rwb")
        self._peer = peer
        self._turn = turn
        self._inside = False
        self._failed = False
        self._rows: list[dict[str, Any]] = []

    def run(self) -> None:
        try:
            self._file.read(20)
            self._file.write(VERSION)
            self._file.flush()
            while (data := self._receive()) is not None:
                code, fields = Reader(data).message()
                if code == GOODBYE:
                    break
                self._answer(code, fields)
        except (OSError, ValueError):
            pass
        finally:
            self._leave("ROLLBACK")
            self._file.close()
            self._peer.close()

    def _receive(self) -> bytes | None:
        parts = []
        while True:
            head = self._file.read(2)
            if len(head) < 2:
                return None
            size = int.from_bytes(head, "big")
            if size == 0 and parts:
                return b"".join(parts)
            parts.append(self._file.read(size))

    def _send(self, code: int, *fields: Any) -> None:
        data = bytes((0xB0 | len(fields), code)) + b"".join(map(packed, fields))
        for start in range(0, len(data), 65535):
            part = data[start : start + 65535]
            self._file.write(len(part).to_bytes(2, "big") + part)
        self._file.write(b"\x00\x00")
        self._file.flush()

    def _answer(self, code: int, fields: list[Any]) -> None:
        if code == RESET:
            self._failed = False
            self._leave("ROLLBACK")
            self._send(SUCCESS, {})
        elif self._failed:
            self._send(IGNORED)
        elif code in (HELLO, LOGON):
            self._greet(fields[0])
        elif code == BEGIN:
            self._turn.acquire()
            self._inside = True
            self._server.engine.run("BEGIN TRANSACTION")
            self._send(SUCCESS, {})
        elif code in (COMMIT, ROLLBACK):
            self._leave("COMMIT" if code == COMMIT else "ROLLBACK")
            self._send(SUCCESS, {})
        elif code == RUN:
            self._run(fields[0], fields[1])
        elif code in (PULL, DISCARD):
            for row in self._rows if code == PULL else ():
                self._send(RECORD, list(row.values()))
            self._rows = []
            self._send(SUCCESS, {"has_more": False})
        else:
            self._send(SUCCESS, {})

    def _greet(self, told: dict[str, Any]) -> None:
        if told.get("credentials") == "wrong":
            self._fail("Neo.ClientError.Security.Unauthorized", "the password is wrong")
        else:
            self._send(SUCCESS, {"server": "Neo4j/5.0.0", "connection_id": "bolt-1"})

    def _run(self, query: str, values: dict[str, Any]) -> None:
        if query.startswith(("CREATE CONSTRAINT", "CREATE INDEX")):
            self._server.schema.append(query)
            self._send(SUCCESS, {"fields": []})
            return
        self._server.queries.append(query)
        try:
            self._rows = self._server.engine.run(query, values)
        except StorageError as error:
            self._fail("Neo.ClientError.Statement.SyntaxError", str(error))
            return
        self._send(SUCCESS, {"fields": list(self._rows[0]) if self._rows else []})

    def _fail(self, code: str, message: str) -> None:
        self._failed = True
        self._send(FAILURE, {"code": code, "message": message})

    def _leave(self, how: str) -> None:
        if self._inside:
            self._inside = False
            try:
                self._server.engine.run(how)
            finally:
                self._turn.release()
