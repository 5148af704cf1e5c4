"""No text keeps a pattern busy for long, whichever way it comes in.

Each call has a limit of processor time. `re` looks for signals while it searches, so a timer ends a pattern that would
not end by itself.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.api.samples import SAMPLES, world
from tests.forked import share_forks
from tests.nasty_texts import nasty_texts

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.errors import ALMAError
from alma.ingestion import ingest
from alma.operations import operations
from alma.rulefiles import import_
from alma.stores.memory import MemoryStore

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no processor timer on this system"),
]

# A pattern whose time grows with the square of the text needs two seconds and more for a long one.
SHORT, LONG = 120, 20_000
SHORT_SECONDS, LONG_SECONDS = 4.0, 1.8
TEXTS_PER_MEMORY = 16
# Each operation gets every 15th text, beginning with another one, so that together they get all of them; `make gate`
# gives each operation every third.
SHARES = [15, pytest.param(3, marks=pytest.mark.quality)]
LONG_SHARES = [16, pytest.param(4, marks=pytest.mark.quality)]
NOT_TEXT = frozenset(
    """agent user_id session_id type run_id workflow_id location source outcome speaker role category domain to path
    root memory_id item_id memory_type signal status workspace scope node_id branch_id blocker_id""".split()
)
ON_LONG_TEXTS = ("retrieve", "search", "learn", "add_knowledge", "add_episode", "learn_from_text", "initialize")


class OutOfTimeError(BaseException):
    """Not an Exception, so that no handler in the code under test swallows it."""


@contextmanager
def processor_limit(seconds: float, text: str) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise OutOfTimeError(f"more than {seconds:g} s of processor time for {text[:60]!r}… ({len(text)} characters)")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def replace_texts(value: Any, text: str, name: str = "") -> Any:
    """Return the arguments with each text that is free to choose replaced."""
    if isinstance(value, str):
        return value if name in NOT_TEXT else text
    if isinstance(value, dict):
        return {key: replace_texts(item, text, key) for key, item in value.items()}
    return [replace_texts(item, text, name) for item in value] if isinstance(value, list) else value


def open_memory() -> ALMA:
    return ALMA(MemoryStore(), HashEmbedder(), project_id="app")


def call_operation(name: str, size: int, seconds: float, folder: Path, share: int) -> None:
    # Each operation has its share of them: what reads texts is the same behind all.
    texts = islice(nasty_texts(size), TEXT_OPERATIONS.index(name) % share, None, share)
    while some := list(islice(texts, TEXTS_PER_MEMORY)):
        # A fresh memory now and then: the time is the text's, not that of all the texts before it.
        with open_memory() as alma:
            arguments = SAMPLES[name](world(alma, str(folder)))
            for text in some:
                with processor_limit(seconds, text), suppress(ALMAError):
                    operations()[name].call(alma, replace_texts(arguments, text))


TEXT_OPERATIONS = [name for name, one in operations().items() if not one.on_files and name in SAMPLES]


@pytest.mark.parametrize("share", SHARES)
def test_an_operation_ends_soon_with_a_short_text(share: int, tmp_path: Path) -> None:
    slow = []
    for name in TEXT_OPERATIONS:
        (tmp_path / name).mkdir()
        try:
            call_operation(name, SHORT, SHORT_SECONDS, tmp_path / name, share)
        except OutOfTimeError as error:
            slow.append(f"{name}: {error}")
    assert not slow


@pytest.mark.parametrize("share", LONG_SHARES)
@pytest.mark.parametrize("name", ON_LONG_TEXTS)
def test_an_operation_ends_soon_with_a_long_text(name: str, share: int, tmp_path: Path) -> None:
    call_operation(name, LONG, LONG_SECONDS, tmp_path, share)


@pytest.mark.parametrize(
    "text", ["see below " + "." * 70 + "!", "token=" + "z.ax" * 40, "use tabs," + " please " * 40 + "x"]
)
def test_texts_that_once_never_ended_are_answered_at_once(text: str) -> None:
    with open_memory() as alma, processor_limit(SHORT_SECONDS, text):
        alma.retrieve(text, "dev")
        alma.add_domain_knowledge("dev", "ops", text)
        alma.add_rule("dev", text)


ENDINGS = (".md", ".txt", ".json", ".jsonl", ".html")


@pytest.mark.parametrize("share", [6, pytest.param(2, marks=pytest.mark.quality)])
@pytest.mark.parametrize("ending", ENDINGS)
def test_files_are_ingested_soon(tmp_path: Path, ending: str, share: int) -> None:
    for number, text in enumerate(islice(nasty_texts(2_000), ENDINGS.index(ending) % share, None, share)):
        (tmp_path / f"{number}{ending}").write_text(text, encoding="utf-8", errors="replace")
    with open_memory() as alma, processor_limit(20.0, ending):
        ingest(tmp_path, "dev", alma=alma)


def test_a_rule_file_is_imported_soon(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for text in nasty_texts(500):
        (tmp_path / "AGENTS.md").write_text(f"# Rules\n\n- {text}\n\n- Use tabs\n{text}\n", encoding="utf-8")
        with open_memory() as alma, processor_limit(SHORT_SECONDS, text), suppress(ALMAError):
            import_(alma, "AGENTS.md", root=tmp_path, all=True)


HOOK_TEXTS = [text for number, text in enumerate(nasty_texts(3_000)) if number % 2 == 0]


@pytest.mark.parametrize("share", [24, pytest.param(8, marks=pytest.mark.quality)])
def test_a_session_of_hook_events_is_drained_soon(tmp_path: Path, share: int) -> None:
    """The host's events and the worker run as processes; each has its own limit."""
    import claude_smart

    hook = str(Path(claude_smart.__file__).with_name("hook.py"))
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    (home / "runtime.json").write_text(json.dumps({"python": "/bin/true", "path": ""}))

    def send(event: str, **given: Any) -> None:
        raw = json.dumps({"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": event, **given}).encode()
        command = [sys.executable, "-I", "-S", hook, "--home", str(home)]
        options = {"env": environ, "capture_output": True, "timeout": 120, "preexec_fn": limit_processor_time(5)}
        subprocess.run(command, input=raw, check=True, **options)

    for text in HOOK_TEXTS[::share]:
        send("UserPromptSubmit", prompt=text)
        send("PostToolUseFailure", tool_name="Bash", tool_input={"command": text}, error=text)
        send("PostToolUse", tool_name="Bash", tool_input={"command": text[:-1]}, tool_response={"stdout": text})
        send("Stop", last_assistant_message=text)
    send("SessionEnd", reason="exit")
    code = "import sys; from alma.hooks import drain, paths; drain.drain(paths.DataDir(sys.argv[1]))"
    ended = share_forks().run(
        f"import resource; resource.setrlimit(resource.RLIMIT_CPU, (120, 120)); {code}",
        tmp_path,
        arguments=[str(home)],
        seconds=600,
    )
    assert ended.code == 0, ended.err[-2000:]


def limit_processor_time(seconds: int) -> Callable[[], None]:
    """Return what limits the processor time of a process that is being started."""
    import resource

    return partial(resource.setrlimit, resource.RLIMIT_CPU, (seconds, seconds))


def test_the_limit_ends_a_pattern_that_would_not_end() -> None:
    import re

    never: Callable[[str], Any] = re.compile(r"(a|a)*b").match
    with pytest.raises(OutOfTimeError), processor_limit(0.2, "a"):
        never("a" * 60)
