"""HTTP connections that cannot be held open by not finishing a request, and no more of them than there is room for.

uvicorn waits without end for the rest of a request. Here, headers and bodies must arrive in time, and connections are
limited in total and for each address. Both HTTP servers use it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_GRACE = 5.0
_LOG = logging.getLogger("alma.http")


def limit_connections(seconds: float, total: int) -> type[H11Protocol]:
    """Return the protocol class for uvicorn's `http=`. One address gets at most a quarter of the connections."""
    return type("LimitedProtocol", (_LimitedProtocol,), {"seconds": seconds, "total": total, "open": Counter()})


class _LimitedProtocol(H11Protocol):
    seconds: float
    """From the connection, or from the first byte of a further request, to the end of its headers."""
    total: int
    open: Counter[str]
    """How many connections each address has now."""
    _phase = ""
    """What is being waited for: headers, body, or nothing."""
    _timer: asyncio.TimerHandle | None = None
    _address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open[self._address] += 1
        if self.open.total() > self.total or self.open[self._address] > max(1, self.total // 4):
            self._refuse(503, "Service Unavailable", "TooManyConnections", "there are too many connections; try again")
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # The next request may have arrived in part already.
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.open -= Counter({self._address: 1})
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Start the timer of what is being waited for. More bytes of the same do not extend it."""
        # Between two requests uvicorn's own timer runs; the first byte of the second ends it.
        is_idle = self.timeout_keep_alive_task is not None
        if self.conn.their_state is h11.SEND_BODY:
            phase = "body"
        else:
            phase = "headers" if self.conn.their_state is h11.IDLE and not is_idle else ""
        if phase == self._phase:
            return
        self._stop_timer()
        self._phase = phase
        if phase and not self.transport.is_closing():
            # The service answers a late body itself; this closes connections whose body nobody reads.
            grace = 0.0 if phase == "headers" else _GRACE
            self._timer = self.loop.call_later(self.seconds + grace, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        _LOG.info("a connection was closed: its %s did not arrive in time", self._phase)
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self._refuse(408, "Request Timeout", "TooSlow", f"the {self._phase} did not arrive in time")
        else:
            self.transport.close()

    def _refuse(self, status: int, reason: str, kind: str, message: str) -> None:
        """Answer without h11, which has no answer to a request that has not arrived, and close."""
        problem = {"type": f"urn:alma:error:{kind}", "title": reason, "status": status, "detail": message}
        body = json.dumps(problem)
        self.transport.write(
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\n"
            f"retry-after: 5\r\nconnection: close\r\n\r\n{body}".encode("ascii")
        )
        self.transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
