"""No secret of the examples reaches a file of the plug-in, neither a journal nor the database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.redaction.examples import SECRETS, split_example
from tests.redaction.test_stored import find_leaks

import claude_smart
from alma.hooks.drain import drain
from alma.hooks.paths import DataDir

pytestmark = pytest.mark.system

HOOK = str(Path(claude_smart.__file__).with_name("hook.py"))


def test_no_secret_of_a_session_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "runtime.json").write_text(json.dumps({"python": "/bin/true", "path": ""}))
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}

    def send(event: str, **given: Any) -> None:
        raw = json.dumps({"session_id": "s1", "cwd": str(tmp_path), "hook_event_name": event, **given}).encode()
        subprocess.run(
            [sys.executable, "-I", "-S", HOOK, "--home", str(home)], input=raw, env=environ, check=True, timeout=120
        )

    texts = [split_example(text)[0] for text in SECRETS]
    for at in range(0, len(texts), 12):
        some = "\n\n".join(texts[at : at + 12])
        send("UserPromptSubmit", prompt=f"Note this.\n\n{some}")
        send("PostToolUseFailure", tool_name="Bash", tool_input={"command": some}, error=some)
        send("Stop", last_assistant_message=some)
    send("SessionEnd", reason="exit")
    drain(DataDir(str(home)))
    files = [path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()]
    assert any(b"Note this." in content for content in files)
    assert find_leaks(b"\n".join(files)) == []
