"""Events: hear in this process what changes in a memory, and send it to webhooks.

    stop = subscribe(alma, print, types=("learned", "superseded"))

A webhook is an address in the configuration. Each committed change leaves a delivery for it in the store, in the same
transaction. `deliver_pending` sends what waits: at least once, and in order for each memory. One process at a time
sends to a webhook: it has a lease, a marker in the store. A delivery that fails is sent again after a pause that grows;
after the last attempt it is a dead letter until `retry_deliveries`.
"""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import json
import logging
import os
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from .engine.calls import Progress, ignore_progress
from .engine.context import Engine, Subscriber
from .engine.events import DELIVERY
from .engine.transaction import Transaction, write
from .errors import ConfigError, NotFoundError
from .memory import ALMA
from .operations import About, Effect, Group
from .types.events import DEFAULT_EVENTS, EventType, MemoryEvent, WebhookSettings
from .types.query import Where
from .types.record import Record, Status, new_id
from .types.times import from_micros, to_iso, to_micros

__all__ = ["EventType", "MemoryEvent", "deliver_in_background", "deliver_pending", "subscribe", "verify_signature"]
operation = Group("events")

_LOG = logging.getLogger("alma.events")
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 6 * 3600.0
"""Seconds after a failed attempt; the pause grows fourfold each time."""
_MARGIN = 20.0
"""Seconds that an attempt may take beyond its timeout: names are looked up before."""
_PAUSE, _LONGEST_IDLE, _CLOSE_SECONDS = 0.5, 30.0, 5.0
"""Between two rounds in the background, at most while nothing can be sent, and before the memory is closed."""
_STATES = {Status.ACTIVE: "waiting", Status.RETIRED: "dead"}


def subscribe(alma: ALMA, handler: Subscriber, types: Iterable[str] = DEFAULT_EVENTS) -> Callable[[], object]:
    """Call `handler` with each event of these types, after its change is stored; return the function that ends it.

    It hears what this memory object writes, in the thread of the writer. An exception is logged and changes nothing.
    """
    return alma.engine.events.subscribe(handler, types)


# -- signatures


def sign_body(secret: str, body: bytes, at: int) -> str:
    """Return the header `Alma-Signature` for a body that is sent at a time, in seconds since the epoch."""
    return f"t={at},v1={hmac.digest(secret.encode(), b'%d.' % at + body, 'sha256').hex()}"


def verify_signature(secret: str, header: str, body: bytes | str, tolerance: float = 300) -> bool:
    """Return whether the header `Alma-Signature` fits the body, and was made within `tolerance` seconds of now."""
    first, *signatures = header.split(",")
    at = first.removeprefix("t=")
    if not at.isascii() or not at.isdigit() or len(at) > 12 or abs(time.time() - int(at)) > tolerance:
        return False
    expected = sign_body(secret, body.encode() if isinstance(body, str) else body, int(at)).split(",")[1]
    return any(hmac.compare_digest(one.strip().encode(), expected.encode()) for one in signatures)


def read_secret(webhook: WebhookSettings) -> str:
    """Return the secret of a webhook from its environment variable."""
    if secret := os.environ.get(webhook.secret_env):
        return secret
    raise ConfigError(f"the environment variable {webhook.secret_env} has no secret for the webhook {webhook.site}")


# -- one attempt


def post_event(webhook: WebhookSettings, event: Mapping[str, Any]) -> tuple[str, bool]:
    """Send an event to a webhook. Redirects are not followed, and proxies are not used.

    Return the error, empty if the receiver accepted the event, and whether other events would fail as well.
    """
    body = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    parts = urlsplit(webhook.url)
    headers = {"Host": parts.netloc, "Content-Type": "application/json"}
    headers |= {"Alma-Event-Id": event["id"], "Alma-Event-Type": event["type"]}
    headers["Alma-Signature"] = sign_body(read_secret(webhook), body, int(time.time()))
    try:
        with _connect(webhook) as connected:
            connection = http.client.HTTPConnection(parts.hostname or "")
            connection.sock = connected
            connection.request("POST", f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", body, headers)
            response = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        return str(error)[:300] or type(error).__name__, True
    is_accepted = 200 <= response.status < 300
    return "" if is_accepted else f"the receiver answered {response.status}", response.status in (429, 502, 503, 504)


@contextmanager
def _connect(webhook: WebhookSettings) -> Iterator[socket.socket]:
    """Connect to a checked address of a webhook. The connection is cut when the time of an attempt is over."""
    parts = urlsplit(webhook.url)
    host, end = parts.hostname or "", time.monotonic() + webhook.timeout
    # What is checked is what is connected to: a second look-up might give other addresses.
    places: list[Any] = socket.getaddrinfo(host, parts.port or parts.scheme, type=socket.SOCK_STREAM)
    if not webhook.allow_private and not all(_is_public(place[4][0]) for place in places):
        raise PermissionError(f"{host} has a private address; to allow it, set `allow_private: true` for this webhook")
    for place in places:
        with suppress(OSError):
            connected = socket.create_connection(place[4][:2], max(0.1, end - time.monotonic()))
            break
    else:
        raise ConnectionError(f"cannot connect to {parts.netloc}")
    # Each silence is limited by the socket, but not their number.
    is_over = threading.Event()

    def cut_off() -> None:
        is_over.set()
        _cut(connected)

    timer = threading.Timer(max(0.0, end - time.monotonic()), cut_off)
    timer.daemon = True
    timer.start()
    try:
        if parts.scheme == "https":
            tls = ssl.create_default_context()
            connected = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
            connected.do_handshake()
        yield connected
        if is_over.is_set():
            # What was read until then is no answer: its headers never ended.
            raise TimeoutError
    except (OSError, http.client.HTTPException):
        if time.monotonic() >= end:
            raise TimeoutError(f"no answer within {webhook.timeout:g} s") from None
        raise
    finally:
        timer.cancel()
        connected.close()


def _cut(connected: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(connected, socket.SHUT_RDWR)


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text)
    inner = getattr(address, "sixtofour", None) or address
    special = address.is_multicast or address.is_reserved or getattr(address, "is_site_local", False)
    return address.is_global and inner.is_global and not special


# -- what waits


def hold_lease(engine: Engine, webhook: WebhookSettings, holder: str, seconds: float) -> bool:
    """Take or extend the right to send to a webhook, for so long; False if another process has it."""

    def step(tx: Transaction) -> bool:
        now, marker = to_micros(engine.clock()), tx.find(f"mrk_webhook_{webhook.id}")
        owner, until = marker.body["value"] if marker else (holder, now)
        # One that ends later than any lease was taken before the clock was set back.
        if owner != holder and now < until <= now + 2e6 * (webhook.timeout + _MARGIN):
            return False
        tx.set_marker(f"mrk_webhook_{webhook.id}", {"value": [holder, now + int(seconds * 1e6)]}, project="")
        return True

    return write(engine, step)


def list_waiting(engine: Engine, webhook: WebhookSettings, limit: int | None = None) -> list[Record]:
    """Return the deliveries that wait for a webhook, oldest first; those of one memory in the order of its versions."""
    where = Where(kinds={DELIVERY}, keys={webhook.id}, statuses={Status.ACTIVE})
    waiting = sorted(engine.store.scan(where, limit), key=lambda one: one.id)
    first = {one.body["event"]["record"]: one.id for one in reversed(waiting)}
    # Not by id: two processes may have made ids in the same moment.
    return sorted(waiting, key=lambda one: (first[one.body["event"]["record"]], one.body["event"]["version"]))


def _deliver(webhook: WebhookSettings, engine: Engine, progress: Progress, is_over: Callable[[], bool]) -> Counter[str]:
    """Send what is due to one webhook; return how many were sent, failed, and became dead letters."""
    if not list_waiting(engine, webhook, 1):
        return Counter()
    hold = partial(hold_lease, engine, webhook, new_id("lse"))
    if not hold(webhook.timeout + _MARGIN):
        return Counter(busy=1, waiting=len(list_waiting(engine, webhook)))
    counts, blocked, failures = Counter[str](), set[str](), 0
    try:
        # Listed with the lease: nobody else sends these meanwhile.
        waiting, now = list_waiting(engine, webhook), to_micros(engine.clock())
        for number, one in enumerate(waiting, 1):
            record = one.body["event"]["record"]
            # As with a lease: a pause is not longer.
            if record in blocked or now < one.body["next_at"] <= now + 2e6 * _LONGEST_PAUSE:
                blocked.add(record)
                continue
            if is_over() or not hold(webhook.timeout + _MARGIN):
                break
            # It may have been erased since it was listed.
            current = next(iter(engine.store.get([one.id])), None)
            if current is None or current.status is not Status.ACTIVE:
                continue
            error, is_down = post_event(webhook, current.body["event"])
            if not error:
                engine.store.delete([current.id])
            outcome = _record_failure(engine, webhook, current, error) if error else "sent"
            counts[outcome] += 1
            if outcome == "failed":
                blocked.add(record)
            progress(number, len(waiting))
            failures = failures + 1 if is_down else 0
            if failures == 3:
                # It is down: other events would fail as well, and each may take until the timeout.
                break
    finally:
        hold(0.0)
    counts["waiting"] = len(waiting) - counts["sent"] - counts["dead"]
    return counts


def _record_failure(engine: Engine, webhook: WebhookSettings, delivery: Record, error: str) -> str:
    """Store when a delivery is sent again; return "failed", or "dead" if this was the last attempt."""
    attempts = delivery.body["attempts"] + 1
    pause = min(_FIRST_PAUSE * 4 ** (attempts - 1), _LONGEST_PAUSE) * random.uniform(0.75, 1.25)
    status = Status.RETIRED if attempts >= webhook.attempts else Status.ACTIVE
    noted = {"attempts": attempts, "next_at": to_micros(engine.clock()) + int(pause * 1e6), "error": error}

    def step(tx: Transaction) -> None:
        for current in tx.get([delivery.id]):
            if current.status is Status.ACTIVE:
                tx.update(current, body={**current.body, **noted}, status=status)

    write(engine, step)
    if len(engine.store.get(delivery.links)) < len(delivery.links):
        # The memory was erased between the reading and the writing of its delivery.
        engine.store.delete([delivery.id])
    return "dead" if status is Status.RETIRED else "failed"


@operation(Effect.CHANGES, "deliver_events", idempotent=True, for_models=False)
def deliver_pending(
    alma: ALMA, progress: Progress = ignore_progress, is_over: Callable[[], bool] = bool
) -> dict[str, int]:
    """Send the events that wait to the configured webhooks. `alma serve` does so by itself.

    Returns how many were sent, failed (they are sent again later), are dead after their last attempt, and still wait.
    `busy` is the number of webhooks that another process is sending to. If a webhook has no secret, the error names it
    after the others were sent their events.
    """
    engine, webhooks = alma.engine, alma.engine.events.webhooks
    deliver = partial(_deliver, engine=engine, progress=progress, is_over=is_over)
    # In threads: a receiver that hangs must not keep the others waiting.
    with ThreadPoolExecutor(max(1, len(webhooks))) as pool:
        runs = [pool.submit(deliver, webhook) for webhook in webhooks]
    counts = sum((run.result() for run in runs), Counter[str]())
    return {name: counts[name] for name in ("sent", "failed", "dead", "waiting", "busy")}


def deliver_in_background(alma: ALMA) -> ALMA:
    """Send events to the configured webhooks until the memory is closed; return the memory."""
    hub, is_over = alma.engine.events, threading.Event()
    for webhook in hub.webhooks:
        try:
            read_secret(webhook)
        except ConfigError as error:
            # Its events wait. It stops nothing else.
            _LOG.warning("%s; its events wait until it has one", error)

    def run() -> None:
        pause = _PAUSE
        while not is_over.wait(pause):
            try:
                report = deliver_pending(alma, is_over=is_over.is_set)
                pause = min(2 * pause, _LONGEST_IDLE) if report["waiting"] and not report["sent"] else _PAUSE
            except Exception as error:  # noqa: BLE001 - what waits is sent by the next round
                pause = _LONGEST_IDLE
                _LOG.warning("could not send events to webhooks: %s", error)

    def close() -> None:
        is_over.set()
        # An attempt may take longer; then its event is sent again.
        thread.join(_CLOSE_SECONDS)

    if hub.webhooks:
        thread = threading.Thread(target=run, name="alma-webhooks", daemon=True)
        thread.start()
        hub.close = close
    return alma


# -- operations


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event on its way to a webhook."""

    id: str
    webhook: str  # The address without its path; empty if it is not configured any more.
    event: str  # The type of the event.
    state: str  # waiting or dead; of a test: accepted or refused.
    error: str
    record: str = ""
    attempts: int = 1
    next_at: datetime | None = None


def _describe_deliveries(engine: Engine, records: Iterable[Record]) -> list[Delivery]:
    sites, deliveries = {one.id: one.site for one in engine.events.webhooks}, []
    for one in records:
        event, attempts, next_at, error = (one.body[name] for name in ("event", "attempts", "next_at", "error"))
        about = (one.id, sites.get(one.key, ""), event["type"], _STATES[one.status], error, event["record"], attempts)
        deliveries.append(Delivery(*about, from_micros(next_at) if next_at else None))
    return deliveries


def _select_deliveries(engine: Engine, state: str | None) -> Where:
    statuses = {status for status, name in _STATES.items() if state in (None, name)}
    return engine.within(DELIVERY, statuses=statuses)


@operation(Effect.READS, for_models=False)
def list_deliveries(
    alma: ALMA,
    state: Annotated[Literal["waiting", "dead"] | None, About("only deliveries in this state")] = None,
    limit: Annotated[int, About("maximum results", least=1, most=1_000_000)] = 50,
) -> list[Delivery]:
    """List events that wait for a webhook, and those that could not be delivered; newest first."""
    return _describe_deliveries(alma.engine, alma.engine.store.scan(_select_deliveries(alma.engine, state), limit))


@operation(Effect.CHANGES, idempotent=True, for_models=False)
def retry_deliveries(
    alma: ALMA, delivery_id: Annotated[str | None, About("only this delivery (default: all dead ones)")] = None
) -> list[Delivery]:
    """Let events that could not be delivered wait again, with all attempts."""

    def step(tx: Transaction) -> list[Record]:
        dead = [one for one in tx.scan(_select_deliveries(alma.engine, "dead")) if delivery_id in (None, one.id)]
        if delivery_id is not None and not dead:
            raise NotFoundError(f"there is no dead delivery {delivery_id!r}; run `alma webhooks --state dead`")
        return [tx.update(one, status=Status.ACTIVE, body={**one.body, "attempts": 0, "next_at": 0}) for one in dead]

    return _describe_deliveries(alma.engine, write(alma.engine, step))


@operation(Effect.CHANGES, for_models=False)
def test_webhooks(alma: ALMA) -> list[Delivery]:
    """Send a signed test event to each configured webhook."""
    tests = []
    for webhook in alma.engine.events.webhooks:
        id, now = new_id("evt"), to_iso(alma.engine.clock())
        error = post_event(webhook, {"id": id, "type": "test", "project": alma.project_id, "at": now})[0]
        tests.append(Delivery(id, webhook.site, "test", "refused" if error else "accepted", error))
    return tests
