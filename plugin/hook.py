"""The hook of claude-smart: finds its code and runs it. What goes wrong is a line in `hooks.log`; the exit code is 0.

It is started, and compiled anew, for every event of a session: so it is short, and loads nothing it can do without.
Any Python 3 must understand it, because an old one may be the `python3` of this machine.
"""

import gc
import os
import sys

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))


def home() -> str:
    """Where everything is kept; never a folder of the project, whose files are not to be trusted."""
    kept = os.path.expanduser(os.environ.get("CLAUDE_SMART_HOME") or os.path.join("~", ".claude-smart"))
    if kept.startswith("~"):
        raise FileNotFoundError("no home folder is known; set CLAUDE_SMART_HOME to a folder")
    return os.path.abspath(kept)


def runtime() -> dict:
    """What the installer wrote: an interpreter that has all packages, and the folder of the code."""
    import json

    try:
        with open(os.path.join(home(), "runtime.json"), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def code() -> str:
    """The folder of the packages: the installed one, the plug-in's own copy, or that of the clone it came with."""
    # The host copies a plug-in to cache/MARKETPLACE/PLUGIN/VERSION and keeps the clone in marketplaces/MARKETPLACE.
    market = os.path.dirname(os.path.dirname(HERE))
    clone = os.path.join(market, os.pardir, os.pardir, "marketplaces", os.path.basename(market), "src")
    for folder in (runtime().get("path"), os.path.join(HERE, "lib"), os.path.join(HERE, os.pardir, "src"), clone):
        if isinstance(folder, str) and os.path.isfile(os.path.join(folder, "alma", "hooks", "run.py")):
            return os.path.abspath(folder)
    raise FileNotFoundError("the code of claude-smart was not found; `claude-smart update` writes it anew")


def main() -> None:
    try:
        if sys.version_info >= OLDEST:
            # Last: a folder of packages may hold old copies of what Python brings along.
            sys.path.append(code())
            from alma.hooks.run import main as hook

            hook()
        else:
            sys.path.insert(0, HERE)
            from spare import become, newer

            become(newer(), ["-I", "-S"])
    except Exception as error:  # noqa: BLE001 - a session goes on whatever happens here
        sys.path.insert(0, HERE)
        from spare import complain

        complain(error, home)


if __name__ == "__main__" and os.environ.get("CLAUDE_SMART_DISABLE") != "1":
    # A process of a few hundredths of a second leaves nothing worth collecting.
    gc.disable()
    main()
