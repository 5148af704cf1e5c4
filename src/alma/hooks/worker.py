"""The process that drains: `python -I worker.py --home FOLDER [--sessions FOLDER] [--once [--if-wanted]]`.

Without `--once` it becomes the warm worker of that home, unless there is one. It is started as a file, by an
interpreter that knows nothing of alma, so that everything of alma is imported late.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from alma.hooks.place import Place

FILE = os.path.abspath(__file__)
_ENDING_SECONDS = 10.0
_NICE = 5


def main(arguments: Sequence[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="worker.py", description="Drain the journals of a home.")
    parser.add_argument("--home", required=True)
    parser.add_argument("--sessions", default="")
    parser.add_argument("--once", action="store_true", help="drain once, then end")
    parser.add_argument("--if-wanted", action="store_true", help="only if nobody else has done it meanwhile")
    given = parser.parse_args(arguments)

    from alma.hooks import log
    from alma.hooks.place import Place

    place = Place(os.path.abspath(given.home), os.path.abspath(given.sessions) if given.sessions else "")
    try:
        place.make()
        # The folder that the hook was started in belongs to the person, who may want to remove it.
        os.chdir(place.home)
        if given.once:
            drain_once(place, if_wanted=given.if_wanted)
        else:
            work(place)
    except Exception as error:  # noqa: BLE001 - nobody sees what this process prints
        log.note(place, "Worker", f"ended: {log.where(error)}")
        return 1
    return 0


def drain_once(place: Place, *, if_wanted: bool = False) -> None:
    from alma.hooks import rounds, wake

    if not if_wanted:
        wake.want(place)
    duties = rounds.Duties(place)
    try:
        rounds.settle(place, duties.drain)
        duties.tidy()
        if duties.has_unread():
            duties.read_sessions()
    finally:
        duties.close()


def work(place: Place) -> None:
    """Be the worker until there is nothing to do; if there is one, make sure that it knows of what is wanted."""
    from alma.hooks import locks, wake

    lock = locks.held(place.worker_lock)
    deadline = time.monotonic() + _ENDING_SECONDS
    # The other one may be ending and listen no more, or may have been told already.
    while lock is None and wake.is_wanted(place) and time.monotonic() < deadline and not wake.is_elsewhere(place):
        wake.tell(place, FILE)
        lock = locks.held(place.worker_lock, 0.2)
    if lock is not None:
        with lock:
            _serve(place)
    else:
        drain_once(place, if_wanted=True)


def _serve(place: Place) -> None:
    from alma.hooks import rounds, serve, settings

    idle = settings.load(place, rounds.EVENT).number("worker_idle_seconds")
    serve.Worker(place, rounds.Duties(place), FILE, idle_seconds=idle).run()


def _detach() -> None:
    """Leave everything that was inherited: what the host waits for, its session, its haste."""
    os.umask(0o077)
    os.closerange(3, 256)
    if os.name == "posix":
        if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
            os.setsid()
        os.nice(_NICE)


if __name__ == "__main__":
    _detach()
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(FILE))))
    sys.exit(main(sys.argv[1:]))
