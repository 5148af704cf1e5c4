"""No secret of the examples reaches a file of the plug-in, neither a journal nor the database."""

from __future__ import annotations

import json
from pathlib import Path

from tests.hooks.conftest import Host
from tests.redaction.examples import SECRETS, split_example
from tests.redaction.test_stored import find_leaks

from alma.hooks.drain import drain
from alma.hooks.paths import DataDir


def test_no_secret_of_a_session_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "runtime.json").write_text(json.dumps({"python": "/bin/true", "path": ""}))
    # As tests/hooks/test_run.py compares, the hook does in this process what its own process does.
    host = Host(home, tmp_path)
    texts = [split_example(text)[0] for text in SECRETS]
    for at in range(0, len(texts), 12):
        some = "\n\n".join(texts[at : at + 12])
        host.send("UserPromptSubmit", prompt=f"Note this.\n\n{some}")
        host.send("PostToolUseFailure", tool_name="Bash", tool_input={"command": some}, error=some)
        host.send("Stop", last_assistant_message=some)
    host.send("SessionEnd", reason="exit")
    drain(DataDir(str(home)))
    files = [path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()]
    assert any(b"Note this." in content for content in files)
    assert find_leaks(b"\n".join(files)) == []
