"""The hook of claude-smart: find the code and run it. Problems go to `hooks.log`; the exit code is always 0.

It is started and compiled for every event of a session, so it is short and loads only what it needs. Every Python 3
must be able to parse it, because the `python3` of the machine may be an old one.
"""

import gc
import os
import sys

OLDEST = (3, 11)
HERE = os.path.dirname(os.path.abspath(__file__))


def read_runtime() -> dict:
    """Return what the installer wrote beside this file: the data folder, the interpreter and the folder of the code.

    Without an installation, it is read from the data folder. No variable decides: a repository may set any.
    """
    import json

    for folder in (HERE, ""):
        try:
            with open(os.path.join(folder or find_home(), "runtime.json"), encoding="utf-8") as file:
                values = json.load(file)
        except (OSError, ValueError):
            continue
        if isinstance(values, dict):
            # The home folder may have been moved since.
            home = values.get("home")
            is_there = bool(folder) and isinstance(home, str) and os.path.isdir(home)
            return values if is_there else {**values, "home": ""}
    return {}


def find_home() -> str:
    """Return the data folder in the home folder that the system records."""
    try:
        import pwd

        return os.path.join(pwd.getpwuid(os.getuid()).pw_dir, ".claude-smart")
    except ImportError:
        return os.path.join(os.path.expanduser("~"), ".claude-smart")
    except KeyError:
        raise FileNotFoundError(
            "the system knows no home folder; run `claude-smart install`, which records it"
        ) from None


def find_code(runtime: dict) -> str:
    """Return the folder of the packages: the installed one, the plugin's own copy, or the clone it came with."""
    # The host copies a plugin to cache/MARKETPLACE/PLUGIN/VERSION and keeps the clone in marketplaces/MARKETPLACE.
    market = os.path.dirname(os.path.dirname(HERE))
    clone = os.path.join(market, os.pardir, os.pardir, "marketplaces", os.path.basename(market), "src")
    for folder in (runtime.get("path"), os.path.join(HERE, "lib"), os.path.join(HERE, os.pardir, "src"), clone):
        if isinstance(folder, str) and os.path.isfile(os.path.join(folder, "alma", "hooks", "run.py")):
            return os.path.abspath(folder)
    raise FileNotFoundError("the code of claude-smart was not found; run `claude-smart update` to restore it")


def main() -> None:
    """Run the hook; with an old interpreter, run it again with a newer one."""
    try:
        runtime = read_runtime()
        if sys.version_info >= OLDEST:
            # Last on the path: a package folder may contain old copies of standard library modules.
            sys.path.append(find_code(runtime))
            from alma.hooks.run import main as run_hook

            run_hook(runtime.get("home") or "")
        else:
            sys.path.insert(0, HERE)
            from spare import find_newer_python, rerun_with

            rerun_with(find_newer_python(runtime), ["-I", "-S"])
    except Exception as error:  # noqa: BLE001 - a session goes on whatever happens here
        sys.path.insert(0, HERE)
        from spare import log_error

        log_error(error, read_runtime, find_home)


if __name__ == "__main__" and os.environ.get("CLAUDE_SMART_DISABLE") != "1":
    # The process is too short-lived for garbage collection to pay off.
    gc.disable()
    main()
