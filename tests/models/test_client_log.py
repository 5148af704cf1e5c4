from __future__ import annotations

import json
import os
import stat

import pytest
from tests.forked import share_forks

from alma.errors import ModelUnavailableError
from alma.models import client
from alma.models.budget import meter
from alma.types.asking import Prompt

pytestmark = pytest.mark.system

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "logs" / "sent.jsonl"


def entries(log):
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def test_there_is_none_unless_asked_for(opened, prompt, tmp_path):
    opened().ask(prompt)
    assert list(tmp_path.iterdir()) == []


def test_what_was_sent_is_there_without_secrets_and_without_the_key(opened, service, prompt, log):
    asked = Prompt(system=f"not {SECRET}", text=f"token {SECRET}, use pnpm", schema=prompt.schema)
    opened(log=log).ask(asked)
    [entry] = entries(log)
    assert entry["text"].endswith(", use pnpm")
    assert entry["schema"]["required"] == ["rules"]
    assert {"at", "model", "system"} <= entry.keys()
    assert SECRET not in log.read_text()
    assert KEY not in log.read_text()


def test_every_try_is_there(opened, service, reply, prompt, log, monkeypatch):
    monkeypatch.setattr("alma.models.client.BACKOFF", 0.01)
    service.script = [reply({}, status=503)]
    opened(log=log, retries=1).ask(prompt)
    assert len(entries(log)) == len(service.seen) == 2


@pytest.mark.skipif(os.name == "nt", reason="rights are not told by a mode there")
def test_only_its_owner_may_read_it(opened, prompt, log):
    log.parent.mkdir()
    log.touch(0o644)
    log.chmod(0o644)
    opened(log=log).ask(prompt)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are not told apart there")
def test_no_link_leads_it_elsewhere(opened, service, prompt, log, tmp_path):
    log.parent.mkdir()
    log.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelUnavailableError, match="nothing was sent, because it cannot be logged"):
        opened(log=log).ask(prompt)
    assert service.seen == []


def test_what_cannot_be_logged_is_not_sent(opened, service, prompt, log, engine):
    log.mkdir(parents=True)
    with pytest.raises(ModelUnavailableError, match="nothing was sent"):
        opened(log=log).ask(prompt)
    assert service.seen == []
    assert meter(engine)[0].aside_tokens == 0


def test_it_does_not_grow_for_ever(opened, prompt, log, monkeypatch):
    monkeypatch.setattr(client, "MOST_LOG_BYTES", 2000)
    model = opened(log=log)
    for _ in range(20):
        model.ask(prompt)
    older = log.with_name("sent.jsonl.1")
    assert log.stat().st_size <= 2000
    assert older.stat().st_size <= 2000
    assert entries(log)
    assert entries(older)
    assert sorted(path.name for path in log.parent.iterdir()) == ["sent.jsonl", "sent.jsonl.1"]


WRITE = """
import sys
from pathlib import Path
from alma.models.client import Client
from alma.types.asking import Answer, Prompt
class Fake:
    name = "fake"
    def ask(self, prompt): return Answer(value={}, model="fake")
model = Client(Fake(), log=Path(sys.argv[1]))
for at in range(50):
    model.ask(Prompt(system="s", text=sys.argv[2] * 9000, schema={}))
"""


def test_the_lines_of_several_processes_do_not_mix(log):
    writers = [share_forks().start(WRITE, log.parent.parent, arguments=[str(log), letter]) for letter in "abcd"]
    assert [writer.communicate() for writer in writers] == [("", "")] * 4
    texts = [entry["text"] for entry in entries(log)]
    assert len(texts) == 200
    assert all(len(set(text)) == 1 and len(text) == 9000 for text in texts)
