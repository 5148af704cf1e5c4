"""What the launchers need only now and then: another interpreter, and a place to complain."""

import os
import sys
import time


def newer() -> str:
    """An interpreter of this machine that is new enough."""
    for minor in (14, 13, 12, 11):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            path = os.path.join(folder, f"python3.{minor}")
            if os.path.isabs(path) and os.access(path, os.X_OK):
                return path
    raise RuntimeError(f"Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}")


def become(python: str, flags: list) -> int:
    """Run the same script with another interpreter, in this one's place."""
    command = [python, *flags, *sys.argv]
    if os.name != "nt":
        os.execv(python, command)
    # There, exec would end this process at once, and whoever waits for it would not get the answer.
    import subprocess

    return subprocess.call(command)


def complain(error: Exception, home) -> None:
    """A line in the log, if there is a home for one. Not with what the person said: that is in no such message."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} - {type(error).__name__}: {error}"
    try:
        folder = home()
        os.makedirs(folder, 0o700, exist_ok=True)
        file = os.open(os.path.join(folder, "hooks.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, (" ".join(line.split())[:500] + "\n").encode("utf-8", "replace"))
        finally:
            os.close(file)
    except OSError:
        return
