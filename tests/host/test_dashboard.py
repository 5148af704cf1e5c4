"""The dashboard shows what a real session taught, and what is decided there holds in the next session."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from alma.http import dashboard

pytestmark = pytest.mark.system

CORRECTION = "no, use pnpm here instead of npm, because npm breaks the lock file"


class Browser:
    """A session of the dashboard, entered through its one-time link."""

    def __init__(self, link: str) -> None:
        url, _, code = link.partition("/ui/enter#")
        answer = httpx.post(f"{url}/ui/session", json={"code": code}, trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text
        session = answer.json()
        headers = {"authorization": f"Bearer {session['token']}", "alma-project": quote(session["project"], safe="")}
        self._client = httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=20)

    def close(self) -> None:
        self._client.close()

    def call(self, operation: str, **arguments: Any) -> Any:
        answer = self._client.post(f"/v1/{operation}", json=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def list_rules(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.call("browse", types=["rule"])["items"]
        return entries


@pytest.fixture
def opened(person: Any) -> Any:
    shop = person.project("shop", "https://github.com/acme/shop")
    shown = person.smart("dashboard", "--json", "--port", "0", cwd=shop)
    assert shown.returncode == 0, shown.stderr
    browser = Browser(json.loads(shown.stdout)["link"])
    yield shop, browser
    browser.close()
    while dashboard._STARTED:
        process = dashboard._STARTED.pop()
        process.terminate()
        process.wait(30)


@pytest.mark.quality
def test_a_correction_is_shown_edited_and_archived_in_the_dashboard(person: Any, opened: Any) -> None:
    shop, browser = opened
    first = person.says("install the packages", shop, {"text": "I ran npm install."})
    person.says(CORRECTION, shop, {"text": "I will use pnpm."}, resume=first.id)
    person.learn()
    began = time.monotonic()
    while not (rules := browser.list_rules()):
        assert time.monotonic() - began < 2
        time.sleep(0.05)
    [entry] = rules
    assert "pnpm" in entry["memory"]["rule"]
    browser.call(
        "update",
        memory_id=entry["memory"]["id"],
        fields={"rule": "Use pnpm with a frozen lock file"},
        expected_version=entry["version"],
        source="user",
    )
    assert "frozen lock file" in person.says("hello", shop).shown
    browser.call("review", action="archive", ids=[entry["memory"]["id"]])
    assert "frozen lock file" not in person.says("hello again", shop).shown
    second = person.says("install the packages", shop, {"text": "I ran npm install."})
    assert "pnpm" not in second.shown
