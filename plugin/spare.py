"""Helpers that the launchers need only in special cases: another interpreter, and the log."""

import os
import sys
import time

FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin")


def find_newer_python(runtime: dict) -> str:
    """Return an interpreter that is new enough: the installed one, or one in a usual folder. PATH may be anybody's."""
    python = runtime.get("python")
    if isinstance(python, str) and python != sys.executable and os.access(python, os.X_OK):
        return python
    for minor in (14, 13, 12, 11):
        for folder in (os.path.dirname(os.path.abspath(sys.executable)), *FOLDERS):
            path = os.path.join(folder, f"python3.{minor}")
            if os.access(path, os.X_OK):
                return path
    raise RuntimeError(f"claude-smart needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}")


def rerun_with(python: str, flags: list) -> int:
    """Run the same script with another interpreter, in place of this process. Return its exit code on Windows."""
    command = [python, *flags, *sys.argv]
    if os.name != "nt":
        os.execv(python, command)
    # On Windows, exec would end this process at once, and the host would not get the answer.
    import subprocess

    return subprocess.call(command)


def log_error(error: Exception, read_runtime, find_home) -> None:
    """Add a line to the log, if there is a data folder. These errors never contain text from a conversation."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} - {type(error).__name__}: {error}"
    try:
        folder = read_runtime().get("home") or find_home()
        os.makedirs(folder, 0o700, exist_ok=True)
        file = os.open(os.path.join(folder, "hooks.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (" ".join(line.split())[:500] + "\n").encode("utf-8", "replace"))
        finally:
            os.close(file)
    except OSError:
        return
