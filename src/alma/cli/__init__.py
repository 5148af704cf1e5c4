"""The command line. `main` is the process boundary: an expected error becomes one line and an exit code."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from ..errors import ALMAError

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 an error or nothing to do, 2 wrong usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows another; a file name of odd bytes is no reason to stop.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and getattr(stream, "errors", None) == "strict":
            reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
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


def _run(words: list[str]) -> int:
    from .derive import Call, Command, rename_command, suggest_option
    from .render import Output
    from .table import build_parser

    if words[:1] == ["__complete"]:
        from .manage import list_completions

        print("\n".join(list_completions(build_parser(words), words[1:])))
        return OK
    words, hint = rename_command(words)
    parser = build_parser(words)
    args, rest = parser.parse_known_args(words)
    if rest:
        args.parser.error(suggest_option(args.parser, rest))
    if args.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    if hint:
        print(hint, file=sys.stderr)
    out = Output(as_json=args.json, color=not args.no_color)
    with nullcontext() if args.command.own_log else _report_warnings():
        try:
            call = Call(args, out)
            command: Command = args.command
            if command.run is not None:
                return command.run(call)
            return call.answer(command.operation, command.key, command.verb)
        except ALMAError as error:
            out.error(error)
            return FAILED


@contextmanager
def _report_warnings() -> Iterator[None]:
    """Print what the library logs on standard error, like an error."""
    log = logging.getLogger("alma")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("warning: %(message)s"))
    handler.setLevel(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _mute() -> None:
    """Drop what is still buffered: nobody reads any more, and it must not raise again while the interpreter ends."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.close(silence)
