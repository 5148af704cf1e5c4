"""The command line. `main` turns an expected error into one line and an exit code."""

from __future__ import annotations

import difflib
import errno
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from ..errors import ALMAError
from ..operations import act_as
from .derive import Call, Command, UsageError, build_parser, list_completions, rename_command
from .render import Output, format_json

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.ENOSPC))
OK, FAILED, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 error or nothing to do, 2 usage error, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        # Replace characters that the terminal cannot encode, such as invalid bytes in file names.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and getattr(stream, "errors", None) == "strict":
            reconfigure(errors="replace")
    log, warnings = logging.getLogger("alma"), logging.StreamHandler(sys.stderr)
    warnings.setFormatter(logging.Formatter("warning: %(message)s"))
    warnings.setLevel(logging.WARNING)
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv), warnings)
        sys.stdout.flush()
        return code
    except UsageError as error:
        Output(as_json="--json" in (sys.argv[1:] if argv is None else argv)).error(error)
        return USAGE
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else USAGE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        # The output pipe was closed, or the disk is full; errors of the store are raised as ALMAError.
        if not isinstance(error, BrokenPipeError) and error.errno not in _FULL:
            raise
        # Buffered output must not raise again at interpreter exit.
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, sys.stdout.fileno())
        os.close(silence)
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        print(f"error: cannot write the output: {error.strerror}", file=sys.stderr)
        return FAILED
    finally:
        log.removeHandler(warnings)


def _run(words: list[str], warnings: logging.Handler) -> int:
    if words[:1] == ["__complete"]:
        print("\n".join(list_completions(build_parser(words), words[1:])))
        return OK
    words, hint = rename_command(words)
    parser = build_parser(words)
    args, rest = parser.parse_known_args(words)
    several = [one.dest for one in args.parser._actions if not one.option_strings and one.nargs in ("*", "+")]
    if rest and several and not any(word.startswith("-") for word in rest):
        # argparse accepts positional values only up to the first option.
        getattr(args, several[0]).extend(rest)
    elif rest:
        if args.command is None:
            args.parser.error(f"unknown option {rest[0]!r}")
        close = difflib.get_close_matches(rest[0].partition("=")[0], args.parser._option_string_actions, n=1)
        meant = f". Did you mean {close[0]!r}?" if close else ""
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}{meant}")
    if args.command is None:
        args.parser.print_help(sys.stderr)
        return USAGE
    if hint:
        print(hint, file=sys.stderr)
    command: Command = args.command
    if not command.own_log:
        logging.getLogger("alma").addHandler(warnings)
    out = Output(as_json=args.json, color=not args.no_color)
    try:
        with ExitStack() as stack, act_as("cli"):
            call = Call(args, out, stack)
            if command.operation and command.requires:
                # A missing argument is reported before any file is read.
                call.read_arguments()
            answer = command.run(call) if command.run else call.answer()
            if call.waiting:
                print(call.describe_waiting(), file=sys.stderr)
    except UsageError:
        raise
    except ALMAError as error:
        out.error(error)
        return FAILED
    finally:
        # Clear the progress bar.
        sys.stderr.write("\r\x1b[K" if sys.stderr.isatty() else "")
    if isinstance(answer, int):
        return answer
    if out.as_json:
        print(format_json(answer.document))
    else:
        out.show(*answer.parts)
    return answer.code
