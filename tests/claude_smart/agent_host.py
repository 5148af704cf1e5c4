"""A coding agent that plays a session through the real hook, and runs one command in its shell.

    agent_host.py PLAN.json

It starts the hook as a host does: a process for each event, without the variables that it sets for its commands.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PLAN = json.loads(Path(sys.argv[1]).read_text())


def send(event: str, **fields: Any) -> None:
    """Report an event to the hook, and write a prompt into the transcript afterwards."""
    payload = {"session_id": PLAN["session"], "cwd": PLAN["cwd"], "hook_event_name": event, **fields}
    if PLAN["transcript"]:
        payload["transcript_path"] = PLAN["transcript"]
    name = [] if PLAN["host"] == "claude" else [PLAN["host"]]
    command = [sys.executable, "-I", "-S", PLAN["hook"], *name, "--home", PLAN["home"]]
    subprocess.run(command, input=json.dumps(payload).encode(), env=dict(os.environ), check=True)
    if PLAN["transcript"] and event == "UserPromptSubmit":
        line = {"type": "user", "sessionId": PLAN["session"], "message": {"role": "user", "content": fields["prompt"]}}
        with open(PLAN["transcript"], "a") as file:
            file.write(json.dumps(line) + "\n")


send("SessionStart", source="startup")
for prompt in PLAN["prompts"]:
    send("UserPromptSubmit", prompt=prompt)
    send("Stop", last_assistant_message="I ran npm install.")
send("UserPromptSubmit", prompt="go on")
call = {"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": PLAN["announced"]}}
send("PreToolUse", **call)
subprocess.run(["bash", "-c", PLAN["command"]], env={**os.environ, **PLAN["variables"]}, check=False)
send("PostToolUse", **call, tool_response={"stdout": "ok"})
send("Stop", last_assistant_message="Done.")
send("SessionEnd", reason="other")
