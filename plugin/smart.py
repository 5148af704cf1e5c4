"""Run claude-smart without an installation.

    python3 smart.py show            run any command
    python3 smart.py --hook          answer a slash command; the event comes on standard input

The text after a slash command is passed as a value within one process, never through a shell.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hook
import spare


def prepare_interpreter() -> str:
    """Continue in the installed interpreter, which has all packages. Return the data folder that was recorded."""
    runtime = hook.read_runtime()
    python = runtime.get("python")
    is_other = isinstance(python, str) and os.path.isfile(python) and not _is_same_path(python, sys.executable)
    if is_other and os.environ.pop("CLAUDE_SMART_LAUNCHED", None) != python:
        os.environ["CLAUDE_SMART_LAUNCHED"] = python
        sys.exit(spare.rerun_with(python, ["-I"]))
    if sys.version_info < hook.OLDEST:
        sys.exit(spare.rerun_with(spare.find_newer_python(runtime), ["-I"]))
    folder = hook.find_code(runtime)
    sys.path[:1] = [] if folder in sys.path else [folder]
    return runtime.get("home") or ""


def _is_same_path(one: str, other: str) -> bool:
    # Links are not resolved: an environment's interpreter is a link, and the environment is what matters.
    return os.path.normcase(os.path.abspath(one)) == os.path.normcase(os.path.abspath(other))


def answer_slash_command() -> int:
    """Answer the slash command on standard input. Return 0 in any case: the command's own text handles a failure."""
    if os.environ.get("CLAUDE_SMART_DISABLE") == "1":
        return 0
    try:
        home = prepare_interpreter()
        from claude_smart.slash import main

        main(home)
    except Exception as error:  # noqa: BLE001 - a session goes on whatever happens here
        spare.log_error(error, hook.read_runtime, hook.find_home)
    return 0


def run_command() -> int:
    """Run the command on the command line. Return its exit code."""
    home = prepare_interpreter()
    from alma.hooks.paths import find_hook_dir
    from claude_smart.cli import main

    return main(data_dir=find_hook_dir(home))


if __name__ == "__main__":
    sys.exit(answer_slash_command() if sys.argv[1:] == ["--hook"] else run_command())
