"""The command line. `main` is the process boundary: what goes wrong on purpose becomes one line and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ..errors import ALMAError
from .output import Output
from .parser import build_parser

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code: 0 well, 1 an error, 2 wrong usage, 130 interrupted."""
    try:
        code = _run(argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _mute()
        return BROKEN_PIPE
    except OSError as error:
        # The answer goes to a file on a full disk, say; the store has errors of its own.
        if error.errno not in _FULL:
            raise
        _mute()
        print(f"error: the answer could not be written: {error.strerror}", file=sys.stderr)
        return FAILED


def _run(argv: Sequence[str] | None) -> int:
    _never_fail_to_print()
    words = sys.argv[1:] if argv is None else list(argv)
    parser = build_parser(words)
    try:
        args = parser.parse_args(words)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else USAGE
    if args.run is None:
        parser.print_help(sys.stderr)
        return USAGE
    out = Output(as_json=args.json, color=not args.no_color)
    with nullcontext() if args.own_log else _warnings():
        try:
            return int(args.run(args, out))
        except ALMAError as error:
            out.error(error)
            return FAILED


@contextmanager
def _warnings() -> Iterator[None]:
    """What the library logs, on standard error like an error."""
    log = logging.getLogger("alma")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _never_fail_to_print() -> None:
    """A terminal that cannot show a character shows another; a file name of odd bytes is no reason to stop."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and getattr(stream, "errors", None) == "strict":
            reconfigure(errors="replace")


def _mute() -> None:
    """Nobody reads any more: what is still buffered must not raise again while the interpreter ends."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.close(silence)
