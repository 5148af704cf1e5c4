"""Runs claude-smart where nothing of it is installed.

    python3 smart.py show            any of its commands
    python3 smart.py --hook          answers its slash commands: the event comes on standard input

What a person typed after a slash command reaches the code as a value inside one process, and never a shell.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hook
import spare


def prepare() -> None:
    """Go on in the installed interpreter, which has all packages, and make the code known."""
    python = hook.runtime().get("python")
    other = isinstance(python, str) and os.path.isfile(python) and not _same(python, sys.executable)
    if other and os.environ.pop("CLAUDE_SMART_LAUNCHED", None) != python:
        os.environ["CLAUDE_SMART_LAUNCHED"] = python
        sys.exit(spare.become(python, ["-I"]))
    if sys.version_info < hook.OLDEST:
        sys.exit(spare.become(spare.newer(), ["-I"]))
    folder = hook.code()
    sys.path[:1] = [] if folder in sys.path else [folder]


def _same(one: str, other: str) -> bool:
    # Not what the links lead to: an environment's interpreter is a link, and the environment is what matters.
    return os.path.normcase(os.path.abspath(one)) == os.path.normcase(os.path.abspath(other))


def answer() -> int:
    """A slash command: always exit code 0; when it fails, the command's own text says what to do."""
    if os.environ.get("CLAUDE_SMART_DISABLE") == "1":
        return 0
    try:
        prepare()
        from claude_smart.slash import main

        main()
    except Exception as error:  # noqa: BLE001 - a session goes on whatever happens here
        spare.complain(error, hook.home)
    return 0


def command() -> int:
    prepare()
    from claude_smart.cli import main

    return main()


if __name__ == "__main__":
    sys.exit(answer() if sys.argv[1:] == ["--hook"] else command())
