"""The hook of claude-smart: find the code and run it. Problems go to `hooks.log`; the exit code is always 0.

It is started and compiled for every event of a session, so it is short and loads only what it needs. Every Python 3
must be able to parse it, because the `python3` of the machine may be an old one.
"""

import gc
import os
import sys

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))


def find_home() -> str:
    """Return the data folder. It is never in the project, whose files are not trusted."""
    folder = os.path.expanduser(os.environ.get("CLAUDE_SMART_HOME") or os.path.join("~", ".claude-smart"))
    if folder.startswith("~"):
        raise FileNotFoundError("no home folder is known; set CLAUDE_SMART_HOME to a folder")
    return os.path.abspath(folder)


def read_runtime() -> dict:
    """Return what the installer wrote: the interpreter with all packages, and the folder of the code."""
    import json

    try:
        with open(os.path.join(find_home(), "runtime.json"), encoding="utf-8") as file:
            values = json.load(file)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def find_code() -> str:
    """Return the folder of the packages: the installed one, the plugin's own copy, or the clone it came with."""
    # The host copies a plugin to cache/MARKETPLACE/PLUGIN/VERSION and keeps the clone in marketplaces/MARKETPLACE.
    market = os.path.dirname(os.path.dirname(HERE))
    clone = os.path.join(market, os.pardir, os.pardir, "marketplaces", os.path.basename(market), "src")
    for folder in (read_runtime().get("path"), os.path.join(HERE, "lib"), os.path.join(HERE, os.pardir, "src"), clone):
        if isinstance(folder, str) and os.path.isfile(os.path.join(folder, "alma", "hooks", "run.py")):
            return os.path.abspath(folder)
    raise FileNotFoundError("the code of claude-smart was not found; run `claude-smart update` to restore it")


def main() -> None:
    """Run the hook; with an old interpreter, run it again with a newer one."""
    try:
        if sys.version_info >= OLDEST:
            # Last on the path: a package folder may contain old copies of standard library modules.
            sys.path.append(find_code())
            from alma.hooks.run import main as run_hook

            run_hook()
        else:
            sys.path.insert(0, HERE)
            from spare import find_newer_python, rerun_with

            rerun_with(find_newer_python(), ["-I", "-S"])
    except Exception as error:  # noqa: BLE001 - a session goes on whatever happens here
        sys.path.insert(0, HERE)
        from spare import log_error

        log_error(error, find_home)


if __name__ == "__main__" and os.environ.get("CLAUDE_SMART_DISABLE") != "1":
    # The process is too short-lived for garbage collection to pay off.
    gc.disable()
    main()
