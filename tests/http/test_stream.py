"""The stream of changes: ids and kinds from every process, in order, until the server stops."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from alma import ALMA

from .conftest import SECONDS, Served, Site, start

pytestmark = pytest.mark.system


@contextmanager
def follow(served: Served, last_event: str = "", **parameters: str) -> Iterator[Iterator[tuple[str, dict[str, Any]]]]:
    headers = {"authorization": f"Bearer {served.token}", **({"last-event-id": last_event} if last_event else {})}
    with (
        httpx.Client(trust_env=False, timeout=SECONDS) as client,
        client.stream("GET", f"{served.url}/v1/events", headers=headers, params=parameters) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield read_events(answer)


def read_events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


@pytest.mark.quality
def test_what_another_process_writes_is_told_within_two_seconds_without_its_text(served: Served) -> None:
    with ALMA.from_config(served.config) as alma, follow(served) as events:
        assert next(events)[0] == "hello"
        rule = alma.add_rule("dev", "Use pnpm in this house")
        kind, notice = next(events)
        assert (kind, notice["seq"]) == ("change", 1)
        assert notice["records"] == [{"id": rule.id, "kind": "rule", "what": "added"}]
        assert "pnpm" not in json.dumps(notice)
        alma.update(rule.id, rule="Use pnpm 9")
        assert next(events)[1]["records"] == [{"id": rule.id, "kind": "rule", "what": "changed"}]
        alma.delete(rule.id)
        _, last = next(events)
        assert (last["seq"], last["records"]) == (3, [{"id": rule.id, "kind": "rule", "what": "deleted"}])
        # The quickest of some: a busy machine may take longer for each of them.
        seconds: list[float] = []
        while not seconds or (min(seconds) >= 2 and len(seconds) < 8):
            began = time.monotonic()
            alma.add_domain_knowledge("dev", "ports", f"Port {8000 + len(seconds)} is taken")
            next(events)
            seconds.append(time.monotonic() - began)
        assert min(seconds) < 2


@pytest.mark.parametrize("name", ["after", "last_event"])
def test_a_stream_goes_on_where_another_ended(served: Served, name: str) -> None:
    with ALMA.from_config(served.config) as alma:
        with follow(served) as events:
            position = next(events)[1]["position"]
        missed = [alma.add_rule("dev", f"Said while nobody listened to {one}").id for one in ("Ana", "Ben")]
        with follow(served, **{name: position}) as events:
            next(events)
            assert [next(events)[1]["records"][0]["id"] for _ in missed] == missed
            later = alma.add_rule("dev", "Said to everybody")
            kind, notice = next(events)
            assert (kind, [one["id"] for one in notice["records"]]) == ("change", [later.id])


def test_too_many_changes_ask_for_a_reload(served: Served) -> None:
    with ALMA.from_config(served.config) as alma:
        with follow(served) as events:
            position = next(events)[1]["position"]
        for number in range(201):
            alma.add_domain_knowledge("dev", "d", f"Fact number {number} of many")
        with follow(served, after=position) as events:
            next(events)
            assert next(events)[0] == "reset"


def test_streams_end_when_the_server_stops(served: Served) -> None:
    with follow(served) as events:
        next(events)
        began = time.monotonic()
        threading.Thread(target=served.end).start()
        assert list(events) == []
        assert time.monotonic() - began < 20
    assert served.process.wait(SECONDS) == 0


def test_a_position_is_checked_and_a_token_is_needed(site: Site) -> None:
    assert site.client().get("/v1/events?after=yesterday").status_code == 400
    assert site.client().get("/v1/events", headers={"last-event-id": "yesterday"}).status_code == 400
    assert site.client(authorization="").get("/v1/events").status_code == 401


def test_an_idle_server_ends_by_itself(tmp_path: Path) -> None:
    served = start(tmp_path, "--idle", "1")
    assert served.process.wait(SECONDS) == 0
    assert served.process.stderr is not None
    served.process.stderr.close()
