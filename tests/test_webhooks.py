"""Webhooks against a real receiver that fails, hangs, closes, is slow and sees repetitions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forked import find_command, find_python

from alma import ALMA, events
from alma.cli import main
from alma.config import load, load_found
from alma.embedders.hash import HashEmbedder
from alma.engine.context import EventHub
from alma.errors import ConfigError, NotFoundError, UntrustedConfigError
from alma.events import deliver_in_background, deliver_pending, list_deliveries, retry_deliveries, verify_signature
from alma.projects import Fence
from alma.stores.sqlite import SQLiteStore
from alma.types.events import EventType, WebhookSettings

pytestmark = pytest.mark.system

SECRET = "correct horse battery staple"
Behaviour = Callable[[int, dict[str, Any]], str]


class Receiver:
    """A server on this machine that does with each request what `behave` says: its number and event are passed."""

    def __init__(self, behave: Behaviour = lambda number, event: "ok") -> None:
        self.behave = behave
        self.received: list[tuple[dict[str, str], bytes, str]] = []
        self.is_over = threading.Event()
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with outer._lock:
                    answer = outer.behave(len(outer.received), json.loads(body))
                    outer.received.append((dict(self.headers), body, answer))
                if answer == "hang":
                    outer.is_over.wait(20)
                if answer in ("hang", "close"):
                    self.close_connection = True
                    return
                if answer == "trickle":
                    for sign in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"1" * 200:
                        self.wfile.write(bytes([sign]))
                        if outer.is_over.wait(0.2):
                            break
                    return
                if answer == "endless":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                    while not outer.is_over.wait(0.1):
                        self.wfile.write(b"X-More: 1\r\n")
                    return
                if answer == "slow":
                    time.sleep(0.2)
                status = {"ok": 204, "slow": 200}.get(answer) or int(answer)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/alma?from=test"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def list_events(self, *answers: str) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body, answer in self.received if answer in (answers or (answer,))]

    def close(self) -> None:
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()


class MovableClock:
    """The time of this machine, and more when told."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def pass_hours(self, hours: float) -> None:
        self.ahead += timedelta(hours=hours)


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


Open = Callable[..., ALMA]


@pytest.fixture
def open_memory(tmp_path: Path, receiver: Receiver, clock: MovableClock) -> Iterator[Open]:
    opened: list[ALMA] = []

    def opener(**options: Any) -> ALMA:
        values = {"url": receiver.url, "secret_env": "HOOK_SECRET", "allow_private": True, "timeout": 1.0, **options}
        alma = ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test", clock=clock)
        alma.engine = replace(alma.engine, events=EventHub([WebhookSettings(**values)]))
        opened.append(alma)
        return alma

    yield opener
    for one in opened:
        one.close()


def deliver_all(alma: ALMA, clock: MovableClock, rounds: int = 60) -> None:
    """Deliver until nothing waits, without waiting for the pauses."""
    for _ in range(rounds):
        if not deliver_pending(alma)["waiting"]:
            return
        clock.pass_hours(12)
    raise AssertionError(f"still waiting: {list_deliveries(alma)}")


def write_some(alma: ALMA, prefix: str = "", count: int = 8) -> list[str]:
    """Write and change facts; return the ids."""
    facts = [alma.add_domain_knowledge("dev", "hosts", f"{prefix}Host {n} is db{n}").id for n in range(count)]
    for text in ("moved", "moved again"):
        for id in facts:
            alma.update(id, fact=f"{prefix}{id} {text}")
    return facts


def versions(accepted: list[dict[str, Any]]) -> dict[str, list[int]]:
    """The versions of each record in the order in which they were first accepted."""
    order: defaultdict[str, list[int]] = defaultdict(list)
    for event in accepted:
        if event["version"] not in order[event["record"]]:
            order[event["record"]].append(event["version"])
    return order


# -- each event at least once, signed, in order for each record


def test_a_delivered_event_is_signed_and_leaves_the_outbox(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is bücher-db", user_id="ana")
    report = deliver_pending(alma)
    assert (report["sent"], report["waiting"], report["failed"], report["dead"]) == (1, 0, 0, 0)
    [(headers, body, _)] = receiver.received
    event = json.loads(body)
    assert (event["type"], event["record"], event["text"]) == ("learned", fact.id, "Staging is bücher-db")
    assert (headers["Alma-Event-Id"], headers["Alma-Event-Type"]) == (event["id"], "learned")
    assert verify_signature(SECRET, headers["Alma-Signature"], body)
    assert not verify_signature("another", headers["Alma-Signature"], body)
    assert headers["Content-Type"] == "application/json"
    assert headers["Host"] == receiver.url.split("/")[2]
    assert list_deliveries(alma) == []
    assert deliver_pending(alma)["sent"] == 0


def test_a_bad_receiver_gets_everything_in_order(open_memory: Open, receiver: Receiver, clock: MovableClock) -> None:
    # An answer that comes too late is a failure like the others: the event is sent again.
    alma = open_memory(timeout=0.5)
    plan = ["500", "ok", "close", "hang", "slow", "503", "ok", "404", "ok", "429"]
    receiver.behave = lambda number, event: plan[number % len(plan)]
    facts = write_some(alma)
    deliver_all(alma, clock)
    accepted = receiver.list_events("ok", "slow")
    assert versions(accepted) == {id: [1, 2, 3] for id in facts}
    assert all(verify_signature(SECRET, headers["Alma-Signature"], body) for headers, body, _ in receiver.received)
    assert len(receiver.received) > len(accepted)


def test_an_event_that_was_accepted_but_not_answered_is_repeated_with_its_id(
    open_memory: Open, receiver: Receiver, clock: MovableClock
) -> None:
    alma = open_memory()
    receiver.behave = lambda number, event: "close" if number == 0 else "ok"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    deliver_all(alma, clock)
    first, second = receiver.list_events()
    assert first == second


def test_a_later_event_of_a_memory_waits_for_the_earlier(
    open_memory: Open, receiver: Receiver, clock: MovableClock
) -> None:
    alma = open_memory()
    one, other = (alma.add_domain_knowledge("dev", "hosts", text).id for text in ("Staging is db1", "Ask Ana"))
    receiver.behave = lambda number, event: "500" if event["record"] == one and number < 3 else "ok"
    alma.update(one, fact="Staging is db2")
    report = deliver_pending(alma)
    assert (report["sent"], report["failed"], report["waiting"]) == (1, 1, 2)
    assert [event["record"] for event in receiver.list_events()] == [one, other]
    assert deliver_pending(alma)["failed"] == 0
    deliver_all(alma, clock)
    assert versions(receiver.list_events("ok")) == {one: [1, 2], other: [1]}


def test_events_with_ids_out_of_order_are_sent_by_version(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory()
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1").id
    for number in range(4):
        alma.update(fact, fact=f"Staging is db{number + 2}")
    store = alma.engine.store
    waiting = events.list_waiting(alma.engine, alma.engine.events.webhooks[0])
    store.delete([one.id for one in waiting])
    ids = sorted((one.id for one in waiting), reverse=True)
    store.put([replace(one, id=id) for one, id in zip(waiting, ids, strict=True)])
    deliver_pending(alma)
    assert [event["version"] for event in receiver.list_events()] == [1, 2, 3, 4, 5]


def test_the_pause_after_a_failure_grows(open_memory: Open, receiver: Receiver, clock: MovableClock) -> None:
    alma = open_memory()
    receiver.behave = lambda number, event: "500"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    pauses = []
    for _ in range(4):
        before = clock()
        deliver_pending(alma)
        [delivery] = list_deliveries(alma)
        assert delivery.next_at is not None
        # The delivery itself takes a moment, which counts for neither limit.
        pauses.append([(delivery.next_at - moment).total_seconds() for moment in (clock(), before)])
        clock.pass_hours(2)
    for (low, high), (least, most) in zip(pauses, ((3, 8), (14, 27), (55, 105), (230, 410)), strict=True):
        assert high > least
        assert low < most


def test_a_receiver_that_answers_a_byte_at_a_time_is_cut_off(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory(timeout=0.5)
    receiver.behave = lambda number, event: "trickle"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    began = time.monotonic()
    deliver_pending(alma)
    assert time.monotonic() - began < 30
    [delivery] = list_deliveries(alma)
    assert delivery.error == "no answer within 0.5 s"


def test_an_answer_whose_headers_never_end_is_none(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory(timeout=0.5)
    receiver.behave = lambda number, event: "endless"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    report = deliver_pending(alma)
    assert (report["sent"], report["failed"]) == (0, 1)
    [delivery] = list_deliveries(alma)
    assert delivery.error == "no answer within 0.5 s"


def test_a_redirect_is_not_followed(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory()
    receiver.behave = lambda number, event: "302"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    deliver_pending(alma)
    assert len(receiver.received) == 1
    assert list_deliveries(alma)[0].error == "the receiver answered 302"


def test_a_receiver_that_hangs_does_not_stop_others(
    open_memory: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    alma, slow = open_memory(timeout=2.0), Receiver(lambda number, event: "hang")
    try:
        [hook] = alma.engine.events.webhooks
        alma.engine = replace(alma.engine, events=EventHub([replace(hook, url=slow.url, timeout=0.5), hook]))
        for number in range(9):
            alma.add_domain_knowledge("dev", "hosts", f"Host {number}")
        report = deliver_pending(alma)
        assert (report["sent"], report["failed"], report["waiting"]) == (9, 3, 9)
        assert len(slow.received) == 3  # It would hang for the others, too.
    finally:
        slow.close()


# -- dead letters


def test_dead_letters_appear_let_later_events_pass_and_can_be_retried(
    open_memory: Open, receiver: Receiver, clock: MovableClock
) -> None:
    alma = open_memory(attempts=3)
    one, other = (alma.add_domain_knowledge("dev", "hosts", text).id for text in ("Staging is db1", "Ask Ana"))
    alma.update(one, fact="Staging is db2")
    receiver.behave = lambda number, event: "500" if (event["record"], event["version"]) == (one, 1) else "ok"
    deliver_all(alma, clock)
    assert versions(receiver.list_events("ok")) == {other: [1], one: [2]}
    [dead] = list_deliveries(alma, "dead")
    assert (dead.record, dead.event, dead.attempts, dead.state) == (one, "learned", 3, "dead")
    assert "500" in dead.error
    receiver.behave = lambda number, event: "ok"
    assert deliver_pending(alma)["sent"] == 0
    with pytest.raises(NotFoundError, match="no dead delivery 'dlv_x'"):
        retry_deliveries(alma, "dlv_x")
    [again] = retry_deliveries(alma, dead.id)
    assert (again.state, again.attempts) == ("waiting", 0)
    assert retry_deliveries(alma) == []
    assert deliver_pending(alma)["sent"] == 1
    assert list_deliveries(alma) == []
    assert receiver.list_events("ok")[-1]["version"] == 1


# -- processes

WRITER = """
import os, sys, signal
from dataclasses import replace
from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.context import EventHub
from alma.projects import Fence
from alma.stores.sqlite import SQLiteStore
from alma.types.events import WebhookSettings
alma = ALMA(SQLiteStore(sys.argv[1]), HashEmbedder(), project_id="test")
hook = WebhookSettings(url=sys.argv[2], secret_env="HOOK_SECRET", allow_private=True)
alma.engine = replace(alma.engine, events=EventHub([hook]))
number = 0
while True:
    fact = alma.add_domain_knowledge("dev", "hosts", f"Host {number} of {os.getpid()}").id
    print(fact, flush=True)
    alma.update(fact, fact=f"Host {number} of {os.getpid()} moved")
    print(fact, flush=True)
    number += 1
"""


@pytest.mark.system
def test_a_killed_process_loses_no_event(
    open_memory: Open, receiver: Receiver, tmp_path: Path, clock: MovableClock
) -> None:
    alma = open_memory()
    acknowledged: list[str] = []
    for round in range(3):
        command = [*find_python(), WRITER, str(tmp_path / "alma.db"), receiver.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(7 + round):
                acknowledged.append(writer.stdout.readline().strip())
            writer.send_signal(signal.SIGKILL)
            # At its end, the process has ended.
            writer.stdout.read()
    assert receiver.received == []
    deliver_all(alma, clock)
    accepted = versions(receiver.list_events())
    for id in set(acknowledged):
        assert accepted[id][: acknowledged.count(id)] == [1, 2][: acknowledged.count(id)]
    stored = {one.id: list(range(1, one.version + 1)) for one in alma.engine.store.get(list(accepted))}
    assert accepted == stored
    assert len(receiver.received) == sum(map(len, stored.values()))


def test_two_dispatchers_keep_the_order_and_repeat_nothing(
    open_memory: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_FIRST_PAUSE", 0.01)
    alma, first, second = open_memory(), open_memory(), open_memory()
    receiver.behave = lambda number, event: "500" if number % 7 == 3 else "ok"
    is_over = threading.Event()

    def dispatch(own: ALMA) -> None:
        while not is_over.is_set() or deliver_pending(own)["waiting"]:
            deliver_pending(own)

    threads = [threading.Thread(target=dispatch, args=(own,)) for own in (first, second, first)]
    for one in threads:
        one.start()
    facts = [id for number in range(4) for id in write_some(alma, f"{number} ", 4)]
    is_over.set()
    for one in threads:
        one.join(60)
    accepted = [(event["record"], event["version"]) for event in receiver.list_events("ok")]
    assert len(accepted) == len(set(accepted)) == 48
    assert versions(receiver.list_events("ok")) == {id: [1, 2, 3] for id in facts}


def test_the_lease_of_a_killed_dispatcher_ends(open_memory: Open, receiver: Receiver, clock: MovableClock) -> None:
    alma = open_memory()
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    [hook] = alma.engine.events.webhooks
    assert events.hold_lease(alma.engine, hook, "somebody", 21)
    report = deliver_pending(alma)
    assert (report["sent"], report["busy"], report["waiting"]) == (0, 1, 1)
    clock.pass_hours(0.01)
    assert deliver_pending(alma)["sent"] == 1


def test_what_is_deleted_while_it_is_sent_does_not_come_back(open_memory: Open, receiver: Receiver) -> None:
    alma, other = open_memory(), open_memory()
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is Xylophonequartz").id

    def delete_it(number: int, event: dict[str, Any]) -> str:
        if event["type"] == "learned":
            other.delete(fact)
        return "500"

    receiver.behave = delete_it
    deliver_pending(alma)
    waiting = events.list_waiting(alma.engine, alma.engine.events.webhooks[0])
    assert [one.body["event"]["type"] for one in waiting] == ["deleted"]
    assert "Xylophonequartz" not in str(waiting)


def test_what_was_deleted_after_it_was_listed_is_not_sent(open_memory: Open, receiver: Receiver) -> None:
    alma, other = open_memory(), open_memory()
    one, second = (alma.add_domain_knowledge("dev", "hosts", text).id for text in ("Ask Ana", "It is Xylophonequartz"))

    def delete_second(number: int, event: dict[str, Any]) -> str:
        if event["record"] == one:
            other.delete(second)
        return "ok"

    receiver.behave = delete_second
    deliver_pending(alma)
    assert [event["record"] for event in receiver.list_events()] == [one]
    deliver_pending(alma)
    assert [event["type"] for event in receiver.list_events()] == ["learned", "deleted"]


# -- addresses


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
     "::1", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1", "fec0::1",
     "255.255.255.255", "240.0.0.1", "::"],
)  # fmt: skip
def test_private_addresses_are_refused(
    address: str, open_memory: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    alma = open_memory(url="https://hooks.example.org/alma", allow_private=False)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", 443))
    places = [public, (family, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: places)
    monkeypatch.setattr(socket, "create_connection", lambda *args, **options: pytest.fail("connected"))
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert deliver_pending(alma)["failed"] == 1
    assert "private address" in list_deliveries(alma)[0].error


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111"])
def test_the_address_that_was_checked_is_the_one_connected_to(
    address: str, open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    alma = open_memory(url="https://hooks.example.org/alma", allow_private=False)
    looked_up: list[Any] = []
    connected: list[Any] = []

    def look_up(*args: Any, **options: Any) -> list[Any]:
        looked_up.append(args)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address if len(looked_up) == 1 else "127.0.0.1", 443))]

    def connect(place: Any, timeout: float) -> socket.socket:
        connected.append(place)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert deliver_pending(alma)["failed"] == 1
    assert (len(looked_up), connected) == (1, [(address, 443)])


@pytest.mark.system
def test_https_checks_the_name_of_the_receiver(
    open_memory: Open, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ssl

    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("NOT TESTED HERE: openssl is not installed, and makes the certificate")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
    command += ["-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
    trusting = ssl.create_default_context(cafile=certificate)
    monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
    port = receiver.server.server_address[1]
    for host, sent in (("localhost", 1), ("127.0.0.1", 0)):
        alma = open_memory(url=f"https://{host}:{port}/alma")
        alma.add_domain_knowledge("dev", "hosts", f"Staging is at {host}")
        assert deliver_pending(alma)["sent"] == sent
    assert "certificate verify failed" in list_deliveries(alma)[0].error
    monkeypatch.undo()
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    assert "certificate verify failed" in events.test_webhooks(alma)[0].error


def test_nothing_listens_there(open_memory: Open, receiver: Receiver) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        alma = open_memory(url=f"http://127.0.0.1:{free.getsockname()[1]}/")
        alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
        assert deliver_pending(alma)["failed"] == 1
    assert "cannot connect to 127.0.0.1" in list_deliveries(alma)[0].error


# -- signatures


@given(secret=st.text(min_size=1), body=st.binary(max_size=200), at=st.integers(-299, 299), other=st.integers(0, 10**6))
def test_a_signature_fits_one_body_one_secret_and_one_time(secret: str, body: bytes, at: int, other: int) -> None:
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    moment = int(time.time()) + at
    header = events.sign_body(secret, body, moment)
    assert verify_signature(secret, header, body)
    assert not verify_signature(secret + "x", header, body)
    assert not verify_signature(secret, header, body + b"x")
    assert not verify_signature(secret, header.replace(f"t={moment}", f"t={moment + 1}"), body)
    assert not verify_signature(secret, events.sign_body(secret, body, moment - 700), body)
    assert verify_signature(secret, f"{header.split(',')[0]},v1={other:x},{header.split(',')[1]}", body)


@given(header=st.text(max_size=60))
def test_any_header_gets_an_answer(header: str) -> None:
    assert verify_signature("secret", header, b"body") is False


# -- configuration


@pytest.mark.parametrize(("behaviour", "code"), [("ok", 0), ("500", 1)])
def test_the_exit_code_says_whether_events_were_accepted(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str], behaviour: str, code: int
) -> None:
    receiver.behave = lambda number, event: behaviour
    hook = f'[{{url: "{receiver.url}", secret_env: HOOK_SECRET, allow_private: true}}]'
    config = ["--config", str(write_config(tmp_path, hook))]
    assert main(["add", "knowledge", *config, "--agent", "dev", "--domain", "x", "--fact", "It rains"]) == 0
    assert main(["webhooks", "deliver", *config]) == code
    assert main(["webhooks", "test", *config]) == code


def write_config(folder: Path, webhooks: str) -> Path:
    file = folder / ".alma" / "config.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"alma:\n  project_id: test\n  embedding_provider: hash\n  webhooks: {webhooks}\n")
    return file


def test_a_webhook_is_configured(tmp_path: Path) -> None:
    hooks = '[{url: "https://example.org/a", secret_env: HOOK_SECRET, events: [learned, deleted], attempts: 2}]'
    [hook] = load(write_config(tmp_path, hooks)).webhooks
    assert (hook.events, hook.attempts, hook.timeout, hook.allow_private) == (["learned", "deleted"], 2, 10.0, False)
    with ALMA.from_config(tmp_path / ".alma" / "config.yaml") as alma:
        assert alma.engine.events.webhooks == (hook,)


def test_by_default_retrievals_and_ratings_are_not_sent(tmp_path: Path) -> None:
    [hook] = load(write_config(tmp_path, '[{url: "https://example.org/a", secret_env: HOOK_SECRET}]')).webhooks
    assert set(EventType) - set(hook.events) == {"retrieved", "judged"}


GOOD = 'url: "https://example.org/a", secret_env: HOOK_SECRET'


@pytest.mark.parametrize(
    ("hooks", "problem"),
    [
        ("{url: x}", "webhooks must be a list"),
        ("[3]", r"webhooks\[0\] must be a mapping"),
        ("[{}]", "webhook: url must be a URL such as"),
        ('[{url: "https://example.org/a"}]', "secret_env must be the name of an environment variable"),
        (
            '[{url: "https://example.org/a", secret: abc}]',
            r"unknown key 'secret' in webhooks.0.. Did you mean 'secret_env'",
        ),
        ('[{url: "example.org", secret_env: A}]', "url must be a URL"),
        ('[{url: "ftp://example.org", secret_env: A}]', "url must be a URL"),
        ('[{url: "https:///path", secret_env: A}]', "url must be a URL"),
        ('[{url: "https://example.org/ a", secret_env: A}]', "url must be a URL"),
        ('[{url: "http://example.org", secret_env: A}]', "url must be https; http is for your own network"),
        ('[{url: "https://u:p@example.org", secret_env: A}]', "url must be a URL"),
        ('[{url: "https://example.org:99999/", secret_env: A}]', "url must be a URL"),
        ('[{url: "https://exämple.org/", secret_env: A}]', "url must be a URL"),
        ("[{url: 7, secret_env: A}]", "url must be a URL"),
        (f"[{{{GOOD}, events: [learnt]}}]", "unknown event 'learnt'. Did you mean 'learned'"),
        (f"[{{{GOOD}, events: learned}}]", "events must be a list of names from: learned, changed"),
        (f"[{{{GOOD}, timeout: 0}}]", "timeout must be 0 to 300 seconds"),
        (f"[{{{GOOD}, attempts: 1.5}}]", "attempts must be a whole number"),
        (f"[{{{GOOD}, allow_private: maybe}}]", "allow_private must be true or false"),
        (f"[{{{GOOD}, timeout: .inf}}]", "timeout must be 0 to 300 seconds"),
        (f"[{{{GOOD}, events: []}}]", "events must be a list of names"),
        (f"[{{{GOOD}, events: [{{a: 1}}]}}]", "events must be a list of names"),
        ('[{url: "https://example.org?key=1", secret_env: A}]', "url must be a URL"),
        (f"[{{{GOOD}}}, {{{GOOD}, events: [changed]}}]", "two webhooks have the same url"),
    ],
)
def test_a_wrong_webhook_is_refused(tmp_path: Path, hooks: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(write_config(tmp_path, hooks))


def test_a_folder_that_is_not_trusted_may_not_name_a_webhook(tmp_path: Path) -> None:
    with pytest.raises(UntrustedConfigError, match="may not set webhooks"):
        load_found(write_config(tmp_path, f"[{{{GOOD}}}]"))


def test_a_missing_secret_is_named_and_nothing_is_sent(
    open_memory: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    alma = open_memory()
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    monkeypatch.delenv("HOOK_SECRET")
    # A server starts without it.
    deliver_in_background(alma)
    for call in (deliver_pending, events.test_webhooks):
        with pytest.raises(ConfigError, match="HOOK_SECRET has no secret for the webhook http://127.0.0.1"):
            call(alma)  # type: ignore[operator]
    assert receiver.received == []
    assert list_deliveries(alma)[0].attempts == 0


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_webhook_without_a_secret_does_not_stop_the_others(
    open_memory: Open, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(events, "ThreadPoolExecutor", lambda _: ThreadPoolExecutor(1))
    receiver.behave = lambda number, event: "slow"
    alma = open_memory()
    [webhook] = alma.engine.events.webhooks
    webhooks = [replace(webhook, url=f"{receiver.url}&number={number}") for number in range(3)]
    webhooks[place] = replace(webhooks[place], secret_env="NO_SECRET")
    alma.engine = replace(alma.engine, events=EventHub(webhooks))
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    for _ in range(2):
        with pytest.raises(ConfigError, match="NO_SECRET has no secret"):
            deliver_pending(alma)
        assert len(receiver.received) == 2


def test_webhooks_go_on_after_the_clock_was_set_back(
    open_memory: Open, receiver: Receiver, clock: MovableClock
) -> None:
    alma = open_memory()
    receiver.behave = lambda number, event: "500" if number == 1 else "ok"
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert deliver_pending(alma)["sent"] == 1
    alma.add_domain_knowledge("dev", "hosts", "Production is db2")
    assert deliver_pending(alma)["failed"] == 1, "it waits for a pause to end"
    assert deliver_pending(alma)["sent"] == 0
    clock.pass_hours(-7 * 24)
    alma.add_domain_knowledge("dev", "hosts", "The archive is db3")
    assert deliver_pending(alma) == {"sent": 2, "failed": 0, "dead": 0, "waiting": 0, "busy": 0}


def test_a_lease_holds_between_machines_whose_clocks_differ_by_seconds(open_memory: Open, clock: MovableClock) -> None:
    alma = open_memory(timeout=10.0)
    [webhook] = alma.engine.events.webhooks
    assert events.hold_lease(alma.engine, webhook, "one", 30.0)
    clock.pass_hours(-5 / 3600)
    assert not events.hold_lease(alma.engine, webhook, "another", 30.0)


def test_a_title_that_quotes_a_deleted_turn_is_not_sent(open_memory: Open, receiver: Receiver) -> None:
    alma = open_memory()
    turns = [{"speaker": "user", "text": "My diagnosis is known"}, {"speaker": "assistant", "text": "Oh"}]
    episode = alma.add_episode("dev", "s1", turns, title="My diagnosis is…")
    alma.delete(alma.get(episode.id).turns[0].id)  # type: ignore[attr-defined]
    deliver_pending(alma)
    assert receiver.list_events()
    assert "diagnosis" not in str(receiver.list_events())


def test_without_webhooks_nothing_is_sent(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder()) as alma:
        alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
        threads = threading.active_count()
        assert deliver_in_background(alma) is alma
        assert threading.active_count() == threads
        report = deliver_pending(alma)
        assert (report["sent"], report["waiting"]) == (0, 0)
        assert list_deliveries(alma) == []


def test_what_waits_for_a_webhook_that_was_removed_is_listed_and_not_sent(
    open_memory: Open, receiver: Receiver
) -> None:
    alma, other = open_memory(), open_memory(url=f"{receiver.url}&other=1")
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert deliver_pending(other)["sent"] == 0
    assert [one.webhook for one in list_deliveries(other)] == [""]
    assert [one.webhook for one in list_deliveries(alma)] == [receiver.url.split("/alma")[0]]


# -- in the background


def wait_until(is_true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)


def test_events_are_sent_in_the_background_until_the_memory_is_closed(open_memory: Open, receiver: Receiver) -> None:
    alma = deliver_in_background(open_memory())
    facts = write_some(alma, count=3)
    wait_until(lambda: len(receiver.received) == 9)
    assert versions(receiver.list_events()) == {id: [1, 2, 3] for id in facts}
    alma.close()
    assert not [one for one in threading.enumerate() if one.name == "alma-webhooks" and one.is_alive()]


@pytest.mark.system
def test_the_server_sends_events(tmp_path: Path, receiver: Receiver) -> None:
    hooks = f'[{{url: "{receiver.url}", secret_env: HOOK_SECRET, allow_private: true, timeout: 1}}]'
    config = write_config(tmp_path, hooks)
    command = [*find_command("alma-http"), "--config", str(config), "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as server:
        try:
            with ALMA.from_config(config) as alma:
                fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
            wait_until(lambda: bool(receiver.received))
            assert receiver.list_events()[0]["record"] == fact.id
        finally:
            server.terminate()
            assert server.wait(30) == 0


# -- the command line


def test_the_command_line_lists_sends_retries_and_tests(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hooks = f'[{{url: "{receiver.url}", secret_env: HOOK_SECRET, allow_private: true, attempts: 1}}]'
    config = str(write_config(tmp_path, hooks))
    monkeypatch.chdir(tmp_path)

    def run(*words: str, code: int = 0) -> Any:
        assert main(["--config", config, "--json", *words]) == code
        return json.loads(capsys.readouterr().out)

    run("add", "knowledge", "--agent", "dev", "--domain", "hosts", "--fact", "Staging is db1")
    [waiting] = run("webhooks")["deliveries"]
    assert (waiting["state"], waiting["event"]) == ("waiting", "learned")
    receiver.behave = lambda number, event: "500"
    assert run("webhooks", "deliver", code=1) == {"sent": 0, "failed": 0, "dead": 1, "waiting": 0, "busy": 0}
    [test] = run("webhooks", "test", code=1)["webhooks"]
    assert (test["state"], test["error"]) == ("refused", "the receiver answered 500")
    receiver.behave = lambda number, event: "ok"
    assert run("webhooks", "test")["webhooks"][0]["state"] == "accepted"
    assert verify_signature(SECRET, receiver.received[-1][0]["Alma-Signature"], receiver.received[-1][1])
    [dead] = run("webhooks", "--state", "dead")["deliveries"]
    [again] = run("webhooks", "retry", dead["id"][:25])["deliveries"]
    assert (again["id"], again["state"]) == (dead["id"], "waiting")
    assert run("webhooks", "deliver")["sent"] == 1
    assert run("webhooks") == {"count": 0, "deliveries": []}
    assert main(["--config", config, "webhooks"]) == 0
    assert capsys.readouterr().out == "No deliveries.\n"
    assert main(["--config", config, "webhooks", "deliver"]) == 0
    assert main(["--config", config, "webhooks", "retry", "dlv_none"]) == 1
    assert "no dead delivery" in capsys.readouterr().err


def test_the_secret_stays_out_of_the_store(open_memory: Open, receiver: Receiver, tmp_path: Path) -> None:
    alma = open_memory(url=f"{receiver.url}&key=path-key-1234")
    write_some(alma, count=2)
    deliver_pending(alma)
    write_some(alma, "later ", count=2)
    alma.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert SECRET.encode() not in content
    assert b"path-key-1234" not in content
    assert os.environ["HOOK_SECRET"] == SECRET


def test_a_token_of_one_project_may_judge_a_rule_of_all_projects_and_send_that(
    open_memory: Open, receiver: Receiver
) -> None:
    alma = open_memory(events=("judged",))
    rule = alma.add_rule("dev", "Always use tabs", reach="always", source="user")
    alma.engine = replace(alma.engine, store=Fence(alma.engine.store, {"test"}))
    alma.record_feedback(rule.id)
    receiver.behave = lambda number, event: "500" if number == 0 else "ok"
    assert deliver_pending(alma)["failed"] == 1
    [delivery] = list_deliveries(alma)
    assert (delivery.record, delivery.attempts) == (rule.id, 1)
    alma.engine = replace(alma.engine, clock=lambda: datetime.now(UTC) + timedelta(hours=1))
    assert deliver_pending(alma)["sent"] == 1
    assert list_deliveries(alma) == []
