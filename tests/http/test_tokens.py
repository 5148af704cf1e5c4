"""The file of tokens: private, whole at any moment, and without a single secret in it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest
from tests.forked import find_python

from alma.errors import ConfigError, NotFoundError, ValidationError
from alma.http import tokens
from alma.http.tokens import FIRST_FILE, Tokens, TokenScope

pytestmark = pytest.mark.system

posix = pytest.mark.skipif(os.name != "posix", reason="NOT TESTED HERE: other systems keep files private otherwise")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / tokens.FILE


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_first_token_is_made_once(file: Path) -> None:
    first = tokens.ensure_token(file)
    assert first == file.with_name(FIRST_FILE)
    secret = first.read_text().strip()
    found = Tokens(file).find(secret)
    assert found is not None
    assert (found.name, found.scope, found.projects) == ("admin", TokenScope.ADMIN, None)
    assert tokens.ensure_token(file) is None
    assert first.read_text().strip() == secret


def test_several_servers_that_start_at_once_make_one(file: Path) -> None:
    code = "import sys, time; from pathlib import Path; from alma.http import tokens\n"
    code += "time.sleep(max(0.0, float(sys.argv[2]) - time.time()))\n"
    code += "tokens.ensure_token(Path(sys.argv[1]))"
    at = str(time.time() + 0.5)
    running = [subprocess.Popen([*find_python(), code, str(file), at]) for _ in range(4)]
    assert [one.wait(60) for one in running] == [0, 0, 0, 0]
    assert len(tokens.list_tokens(file)) == 1
    assert Tokens(file).find(file.with_name(FIRST_FILE).read_text().strip()) is not None


def test_a_start_that_was_cut_short_leaves_no_token_that_nobody_knows(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(path: Path, held: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(tokens, "_write", cut)
        with pytest.raises(KeyboardInterrupt):
            tokens.ensure_token(file)
    assert not file.exists()
    first = tokens.ensure_token(file)
    assert first is not None
    assert Tokens(file).find(first.read_text().strip()) is not None


@posix
def test_the_files_are_private(file: Path) -> None:
    first = tokens.ensure_token(file)
    assert first is not None
    assert [mode(file), mode(first)] == [0o600, 0o600]
    tokens.add(file, "guest")
    assert mode(file) == 0o600


@posix
def test_a_file_that_others_can_read_is_not_trusted(file: Path) -> None:
    tokens.ensure_token(file)
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        Tokens(file).find("x")


def test_only_hashes_are_kept(file: Path) -> None:
    secret = tokens.add(file, "guest", "write", ["app", "shop"])
    text = file.read_text()
    assert secret not in text
    assert secret.removeprefix("alma_") not in text
    [told] = json.loads(text)["tokens"]
    assert (told["name"], told["scope"], told["projects"]) == ("guest", "write", ["app", "shop"])
    assert len(secret) > 40


def test_what_was_added_is_listed_until_it_is_revoked(file: Path) -> None:
    assert tokens.list_tokens(file) == []
    secrets = {name: tokens.add(file, name) for name in ("a", "b", "c")}
    assert [one.name for one in tokens.list_tokens(file)] == ["a", "b", "c"]
    assert tokens.revoke(file, "b").name == "b"
    held = Tokens(file)
    assert [held.find(secrets[name]) is not None for name in "abc"] == [True, False, True]


def test_revoking_the_first_takes_its_readable_copy_away(file: Path) -> None:
    first = tokens.ensure_token(file)
    assert first is not None
    tokens.revoke(file, "admin")
    assert not first.exists()
    with pytest.raises(ConfigError, match="alma token add"):
        tokens.ensure_token(file)


def test_a_running_server_sees_what_changed(file: Path) -> None:
    tokens.add(file, "a")
    held = Tokens(file)
    assert held.find("nothing") is None
    secret = tokens.add(file, "b", TokenScope.ADMIN)
    found = held.find(secret)
    assert found is not None
    assert found.name == "b"
    file.unlink()
    assert held.find(secret) is None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("a",), "already"),
        (("",), "NAME must be 1 to 100"),
        (("x" * 101,), "NAME must be 1 to 100"),
        (("line\nbreak",), "NAME must be 1 to 100"),
        (("b", "owner"), "Valid: read, write, approve, admin"),
        (("b", "read", [""]), "project"),
    ],
)
def test_what_cannot_be_made_is_refused(file: Path, arguments: tuple[str, ...], told: str) -> None:
    tokens.add(file, "a")
    with pytest.raises(ValidationError, match=told):
        tokens.add(file, *arguments)
    assert len(tokens.list_tokens(file)) == 1


@pytest.mark.parametrize(("given", "days"), [("30d", 30), ("2w", 14), ("1y", 365), ("48h", 2), (" 30D ", 30)])
def test_a_token_may_expire(file: Path, given: str, days: int) -> None:
    tokens.add(file, "guest", expires=given)
    [held] = tokens.list_tokens(file)
    assert held.expires_at is not None
    assert abs(held.expires_at - held.created_at - timedelta(days=days)) < timedelta(minutes=1)
    assert not held.is_expired


@pytest.mark.parametrize("given", ["2999-01-31", "2999-01-31T12:00", "2999-01-31T12:00:00+02:00"])
def test_it_may_expire_at_a_date(file: Path, given: str) -> None:
    tokens.add(file, "guest", expires=given)
    assert str(tokens.list_tokens(file)[0].expires_at).startswith("2999-01-31")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("soon", "such as 12h"),
        ("", "such as 12h"),
        ("30", "such as 12h"),
        ("-3d", "such as 12h"),
        ("2001-01-31", "future"),
        ("0d", "future"),
        ("99999y", "such as 12h"),
    ],
)
def test_no_other_time_is_taken(file: Path, given: str, told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        tokens.add(file, "guest", expires=given)


def test_a_file_of_before_has_tokens_that_do_not_expire(file: Path) -> None:
    secret = tokens.add(file, "guest")
    held = json.loads(file.read_text())
    del held["tokens"][0]["expires_at"]
    file.write_text(json.dumps(held))
    found = Tokens(file).find(secret)
    assert found is not None
    assert not found.is_expired


def test_nobody_revokes_what_is_not_there(file: Path) -> None:
    tokens.add(file, "guest")
    with pytest.raises(NotFoundError, match="Did you mean 'guest'"):
        tokens.revoke(file, "gast")


@pytest.mark.parametrize("text", ["", "{}", '{"tokens": [1]}', '{"tokens": [{"name": "a"}]}', "\x80"])
def test_a_damaged_file_is_an_error_and_opens_nothing(file: Path, text: str) -> None:
    file.write_text(text, encoding="latin-1")
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=tokens.FILE):
        Tokens(file).find("x")


def test_none_is_lost_when_several_add_at_once(file: Path) -> None:
    code = "import sys; from pathlib import Path; from alma.http import tokens\n"
    code += "for at in range(5): tokens.add(Path(sys.argv[1]), f'{sys.argv[2]}-{at}')"
    running = [subprocess.Popen([*find_python(), code, str(file), str(at)]) for at in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert len(tokens.list_tokens(file)) == 15
    assert not list(file.parent.glob("*.part"))


def test_a_lock_that_was_left_behind_is_taken_over(file: Path) -> None:
    lock = file.with_name(f".{file.name}.lock")
    lock.touch()
    tokens.add(file, "guest")
    assert [one.name for one in tokens.list_tokens(file)] == ["guest"]


def test_a_scope_holds_those_before_it() -> None:
    assert [TokenScope.WRITE.holds(one) for one in TokenScope] == [True, True, False, False]
