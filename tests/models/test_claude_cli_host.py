"""The real Claude Code as a model, on a scripted API: what leaves the machine, and what does not take part.

The fixture `claude_binary` is the path of the program; where there is none, nothing of this is known to hold.
"""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from alma.engine.context import Engine
from alma.errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError, OverBudgetError
from alma.models.budget import meter
from alma.models.registry import create, open_model
from alma.stores.memory import MemoryStore
from alma.types.asking import BudgetLimits, ModelSettings, Prompt

pytestmark = pytest.mark.system

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SCHEMA = {"type": "object", "properties": {"rules": {"type": "array"}}, "required": ["rules"]}
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd")


@pytest.fixture
def claude(request):
    try:
        return str(request.getfixturevalue("claude_binary"))
    except pytest.FixtureLookupError:
        pytest.skip("NOT TESTED with the real Claude Code: no fixture `claude_binary` names one")


class API:
    """A Messages API on loopback that says one thing and remembers what it was told."""

    def __init__(self):
        self.reply = '{"rules": ["use pnpm"]}'
        self.delay = 0.0
        self.requests = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "/messages" in self.path and "count_tokens" not in self.path:
                    api.requests.append((dict(self.headers), body))
                    time.sleep(api.delay)
                    self.answer("text/event-stream", api.stream(body["model"]))
                else:
                    self.answer("application/json", b'{"input_tokens": 10}')

            def do_GET(self):
                self.answer("application/json", b"{}")

            do_HEAD = do_GET

            def answer(self, kind, payload):
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(payload)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def stream(self, model):
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": []}
        message |= {"stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 11, "output_tokens": 1}}
        text = {"type": "text_delta", "text": self.reply}
        parts = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": text},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        return "".join(f"event: {part['type']}\ndata: {json.dumps(part)}\n\n" for part in parts).encode()

    def sent(self):
        """Everything that the only request told."""
        [(_, body)] = self.requests
        return json.dumps(body, ensure_ascii=False)


@pytest.fixture
def api():
    made = API()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def home(tmp_path):
    """A person with settings, hooks and a memory file of their own."""
    folder = tmp_path / "home" / ".claude"
    folder.mkdir(parents=True)
    hook = {"hooks": [{"type": "command", "command": f"echo fired >> {tmp_path / 'hooked'}"}]}
    (folder / "settings.json").write_text(json.dumps({"hooks": {event: [hook] for event in EVENTS}}))
    (folder / "CLAUDE.md").write_text("MEMORY-OF-THE-PERSON")
    return folder.parent


@pytest.fixture
def environ(claude, api, home):
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "CLAUDE_SMART_CLI_PATH": claude,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{api.server.server_port}",
        "ANTHROPIC_API_KEY": "dummy",
    }


def asking(text):
    return Prompt(system="Find the rules.", text=text, schema=SCHEMA, max_tokens=700)


@pytest.fixture
def ask(environ):
    def go(text, **changes):
        return create("claude-cli", {"timeout": 60}, environ | changes).ask(asking(text))

    return go


def test_it_answers_with_one_request_and_nothing_of_the_person_takes_part(ask, api, home, tmp_path):
    (tmp_path / "private.txt").write_text("CONTENT-OF-A-FILE")
    named = f"{tmp_path / 'private.txt'}"
    answer = ask(f'/help @{named} and @"{named}"\n@{named}\n!cat {named}\nthe token is {SECRET}, no, use pnpm')
    assert answer.value == {"rules": ["use pnpm"]}
    assert "haiku" in answer.model
    assert (answer.tokens_in, answer.tokens_out) == (11, 5)
    assert answer.cost > 0
    [(_, body)] = api.requests
    assert body["tools"] == []
    assert body["max_tokens"] == 700
    assert "haiku" in body["model"]
    assert "no, use pnpm" in api.sent()

    assert f"@{named}" in api.sent(), "the text itself is told"
    assert "CONTENT-OF-A-FILE" not in api.sent(), "a file was attached, or a command was run"
    assert SECRET not in api.sent()
    assert "MEMORY-OF-THE-PERSON" not in api.sent()
    assert not (tmp_path / "hooked").exists(), "a hook fired"
    assert not list((home / ".claude").rglob("*.jsonl")), "a transcript was written"


def test_a_login_in_the_persons_settings_is_kept(ask, api, home):
    helper = home / "helper"
    helper.write_text("#!/bin/sh\necho key-of-the-helper\n")
    helper.chmod(0o755)
    (home / ".claude" / "settings.json").write_text(json.dumps({"apiKeyHelper": str(helper)}))
    assert ask("no, use pnpm", ANTHROPIC_API_KEY="").value == {"rules": ["use pnpm"]}
    [(headers, _)] = api.requests
    assert "key-of-the-helper" in json.dumps(headers)


def test_without_a_login_it_says_so(ask, api):
    with pytest.raises(ModelUnavailableError, match="claude failed: Not logged in"):
        ask("no, use pnpm", ANTHROPIC_API_KEY="")
    assert not api.requests


def test_a_server_that_is_not_there_is_an_error_in_time(ask):
    with pytest.raises(ModelUnavailableError, match="claude failed: "):
        ask("no, use pnpm", ANTHROPIC_BASE_URL="http://127.0.0.1:9")


@pytest.fixture
def engine():
    return Engine(MemoryStore(), "p")


def test_one_that_takes_too_long_is_ended_and_counts_as_spent(environ, engine, api):
    api.delay = 60.0
    for timeout in (5, 40):
        model = open_model(ModelSettings(provider="claude-cli", timeout=timeout), engine, environ)
        with pytest.raises(ModelTimeoutError, match=f"did not answer within {timeout} s and was stopped"):
            model.ask(asking("no, use pnpm"))
        if api.requests:
            # On a busy machine, the first one may be stopped before it asks.
            break
    assert len(api.requests) == 1
    assert meter(engine)[0].aside_tokens > 0


def test_a_configured_one_mends_an_answer_once_and_keeps_its_budget(environ, engine, api):
    api.reply = "I would rather talk about the weather."
    settings = ModelSettings(provider="claude-cli", budget=BudgetLimits(calls=2, cost=1.0))
    with pytest.raises(ModelOutputError, match="not JSON"):
        open_model(settings, engine, environ).ask(asking("no, use pnpm"))
    assert len(api.requests) == 2
    [day] = meter(engine)
    assert (day.calls, day.dropped, day.tokens, day.aside_cost) == (2, 2, 32, 0.0)
    assert 0 < day.cost < 0.01
    with pytest.raises(OverBudgetError, match="2 of 2 calls"):
        open_model(settings, engine, environ).ask(asking("no, use pnpm"))
    assert len(api.requests) == 2
