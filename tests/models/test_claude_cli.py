"""Claude Code as a model, played by a script that does what it is told, or does not."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alma.engine.context import Engine
from alma.errors import ModelOutputError, ModelTimeoutError, ModelUnavailableError
from alma.models.budget import Budgeted, BudgetLimits, meter
from alma.models.claude_cli import ClaudeCLI
from alma.models.client import parse_json
from alma.models.registry import create
from alma.stores.memory import MemoryStore
from alma.types.asking import Prompt

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.name == "nt", reason="the script that plays claude needs a first line of its own"),
]

SCHEMA = {
    "type": "object",
    "properties": {"rules": {"type": "array", "items": {"type": "string"}}},
    "required": ["rules"],
}
PROMPT = Prompt(system="Find the rules.", text="/show me @/etc/hostname: use pnpm", schema=SCHEMA, max_tokens=500)

HEAD = """#!{python}
import json, os, subprocess, sys, time
given = sys.stdin.read()
with open({log!r}, "w") as file:
    json.dump(dict(args=sys.argv[1:], given=given, env=dict(os.environ), cwd=os.getcwd(), files=os.listdir(),
                   pid=os.getpid(), settings=open(sys.argv[sys.argv.index("--settings") + 1]).read()), file)
def result(text, **more):
    usage = dict(input_tokens=10, cache_read_input_tokens=5, cache_creation_input_tokens=1, output_tokens=7)
    print(json.dumps(dict(type="result", subtype="success", is_error=False, result=text, usage=usage,
                          total_cost_usd=0.002, modelUsage={{"claude-haiku-9": {{}}}}) | more))
"""


@pytest.fixture
def play(tmp_path):
    """Makes a claude that does as the given lines say; returns how to ask it, and what it was asked."""

    def make(script, **options):
        log = tmp_path / "asked.json"
        program = tmp_path / "bin" / "claude"
        program.parent.mkdir(exist_ok=True)
        program.write_text(HEAD.format(python=sys.executable, log=str(log)) + script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        environ = {
            "PATH": str(program.parent),
            "HOME": str(tmp_path),
            "CLAUDECODE": "1",
            "CLAUDE_PROJECT_DIR": "/somewhere",
            "ANTHROPIC_API_KEY": "kept",
        }
        return ClaudeCLI(environ, **options), lambda: json.loads(log.read_text())

    return make


GOOD = 'result(\'{"rules": ["use pnpm"]}\')'


def test_it_answers(play):
    model, _ = play(GOOD)
    answer = model.ask(PROMPT)
    assert answer.value == {"rules": ["use pnpm"]}
    assert answer.model == "claude-haiku-9"
    assert (answer.tokens_in, answer.tokens_out, answer.cost) == (16, 7, 0.002)
    assert 0 < answer.seconds < 20


def test_it_is_asked_alone(play):
    model, asked = play(GOOD)
    model.ask(PROMPT)
    told = asked()
    args = told["args"]
    assert args[0] == "-p"
    assert args[args.index("--tools") + 1] == ""
    assert args[args.index("--model") + 1] == "haiku"
    assert {"--no-session-persistence", "--strict-mcp-config", "--disable-slash-commands"} <= set(args)
    assert json.loads(told["settings"])["disableAllHooks"] is True
    assert "Read" in json.loads(told["settings"])["permissions"]["deny"]
    assert told["files"] == [], "it runs where there is nothing"
    assert not os.path.exists(told["cwd"]), "and nothing is left"


def test_its_environment_is_the_persons_but_for_the_session_it_was_called_from(play):
    model, asked = play(GOOD)
    model.ask(PROMPT)
    env = asked()["env"]
    assert env["CLAUDE_SMART_DISABLE"] == "1"
    assert env["CLAUDE_CODE_SAFE_MODE"] == "1"
    assert env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] == "500"
    assert env["ANTHROPIC_API_KEY"] == "kept"
    assert not {"CLAUDECODE", "CLAUDE_PROJECT_DIR"} & env.keys()


def test_what_is_said_goes_through_standard_input_and_begins_with_our_words(play):
    model, asked = play(GOOD)
    model.ask(PROMPT)
    told = asked()
    assert told["given"].startswith("Task: Find the rules.")
    assert PROMPT.text in told["given"]
    assert json.dumps(SCHEMA) in told["given"]
    assert not any("pnpm" in argument for argument in told["args"])


def test_a_text_that_is_no_unicode_can_be_asked(play):
    model, asked = play(GOOD)
    model.ask(Prompt(system="x", text="half a pair: \ud800", schema=SCHEMA))
    assert "half a pair: ?" in asked()["given"]


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ("print('hello')", ModelOutputError, "claude printed 6 bytes, not a result"),
        ("pass", ModelOutputError, "claude printed nothing"),
        ("print('[1]')", ModelOutputError, "not a result"),
        ("sys.stdout.buffer.write(bytes(range(256)))", ModelOutputError, "not a result"),
        ("result('I would rather not.')", ModelOutputError, r"the model's answer is not JSON \(19 characters\)"),
        ("result('{\"rules\": [')", ModelOutputError, r"answer is not JSON \(11 characters\)"),
        (
            "result('{\"rules\": [3]}')",
            ModelOutputError,
            r"does not match the schema: \$.rules\[0\]: must be string, not integer",
        ),
        ("result('[]')", ModelOutputError, "must be object"),
        ("result(None)", ModelOutputError, "the model's answer is empty"),
        ("result('{}', stop_reason='refusal')", ModelOutputError, "the model refused to answer"),
        ("sys.exit(3)", ModelUnavailableError, "claude ended with code 3: nothing"),
        ("sys.exit('no such option')", ModelUnavailableError, "claude ended with code 1: no such option"),
        ("result('Not logged in', is_error=True); sys.exit(1)", ModelUnavailableError, "claude failed: Not logged in"),
        ("result(None, is_error=True, errors=['over'])", ModelUnavailableError, "claude failed: over"),
        ("result('{\"rules\": []}'); sys.exit(1)", ModelUnavailableError, "claude failed"),
    ],
)
def test_whatever_is_no_answer_has_a_name_and_is_counted(play, script, error, message):
    model, _ = play(script)
    engine = Engine(MemoryStore(), "p")
    with pytest.raises(error, match=message):
        Budgeted(model, engine, BudgetLimits()).ask(PROMPT)
    [day] = meter(engine)
    assert (day.calls, day.failed) == (1, 1)


def test_what_a_bad_answer_cost_is_known(play):
    model, _ = play("result('no')")
    with pytest.raises(ModelOutputError) as caught:
        model.ask(PROMPT)
    assert caught.value.spent == (16, 7, 0.002)


def test_one_that_hangs_is_ended_with_all_its_children(play, tmp_path):
    child = tmp_path / "child"
    script = f"""
kid = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open({str(child)!r}, "w").write(str(kid.pid))
time.sleep(60)
"""
    model, asked = play(script, timeout=6)
    started = time.monotonic()
    with pytest.raises(ModelTimeoutError, match=r"claude did not answer within 6 s and was stopped"):
        model.ask(PROMPT)
    assert time.monotonic() - started < 30
    for pid in (asked()["pid"], int(child.read_text())):
        until(lambda pid=pid: not is_alive(pid))


def test_one_that_floods_is_ended_early(play):
    model, asked = play("[sys.stdout.write('x' * 1_000_000) for _ in range(100)]")
    started = time.monotonic()
    with pytest.raises(ModelOutputError, match="printed more than 4 MB and was stopped"):
        model.ask(PROMPT)
    assert time.monotonic() - started < 30
    assert not is_alive(asked()["pid"])


def test_one_that_floods_its_errors_is_read_to_the_end(play):
    model, _ = play("[sys.stderr.write('x' * 1_000_000) for _ in range(20)]\n" + GOOD)
    assert model.ask(PROMPT).value == {"rules": ["use pnpm"]}


def test_one_that_leaves_a_child_with_its_output_is_not_waited_for(play):
    model, _ = play(
        GOOD + '\nsys.stdout.flush()\nsubprocess.Popen([sys.executable, "-c", "import time; time.sleep(40)"])'
    )
    started = time.monotonic()
    assert model.ask(PROMPT).value == {"rules": ["use pnpm"]}
    assert time.monotonic() - started < 30


def test_one_that_reads_nothing_is_no_obstacle(play, tmp_path):
    program = tmp_path / "deaf"
    program.write_text(f"#!{sys.executable}\nprint('x')\n")
    program.chmod(0o755)
    model = ClaudeCLI({}, path=str(program))
    with pytest.raises(ModelOutputError, match="2 bytes, not a result"):
        model.ask(Prompt(system="s", text="x" * 5_000_000, schema=SCHEMA))


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(
        ModelUnavailableError, match="`claude` is not on the PATH; install it, or set CLAUDE_SMART_CLI_PATH"
    ):
        ClaudeCLI({"PATH": str(tmp_path)}).ask(PROMPT)
    with pytest.raises(
        ModelUnavailableError, match="CLAUDE_SMART_CLI_PATH is '/nowhere/claude', which is not a program"
    ):
        create("claude-cli", {}, {"CLAUDE_SMART_CLI_PATH": "/nowhere/claude"}).ask(PROMPT)


def test_a_program_that_cannot_run_is_named(tmp_path):
    program = tmp_path / "claude"
    program.write_text("#!/nowhere/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(ModelUnavailableError, match="claude cannot be started: No such file"):
        ClaudeCLI({"PATH": str(tmp_path)}).ask(PROMPT)


ENDS = """
import os, sys, threading, time
from alma.models.claude_cli import ClaudeCLI
from alma.types.asking import Prompt
model = ClaudeCLI({}, path=sys.argv[1])
thread = threading.Thread(target=model.ask, args=(Prompt(system="s", text="t", schema={}),), daemon=True)
thread.start()
deadline = time.monotonic() + 60
while not (os.path.exists(sys.argv[2]) and os.path.getsize(sys.argv[2])) and time.monotonic() < deadline:
    time.sleep(0.02)
"""


def test_a_process_that_ends_while_it_asks_leaves_no_program(tmp_path):
    program, log = tmp_path / "claude", tmp_path / "pid"
    program.write_text(
        f"#!{sys.executable}\nimport os, time\nopen({str(log)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    program.chmod(0o755)
    subprocess.run([sys.executable, "-c", ENDS, str(program), str(log)], check=True, capture_output=True)
    until(lambda: not is_alive(int(log.read_text())))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Here it is:\n{"a": [1]}\nAnything else?', {"a": [1]}),
        ('See [1] below: {"a": 1}', [1]),
        ('See [the rules] below: {"a": 1}', {"a": 1}),
        (" [1, 2] ", [1, 2]),
        ("3", 3),
        ('"x"', "x"),
    ],
)
def test_json_is_found_in_what_a_model_says(text, value):
    assert parse_json(text) == value


@pytest.mark.parametrize("text", ["", "no", "{", "3 rules", "[" * 100_000, '{"a": }'])
def test_what_holds_no_json_is_refused(text):
    with pytest.raises(ModelOutputError, match="answer is not JSON" if text else "answer is empty"):
        parse_json(text)


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
