"""Measure retrieval on LongMemEval: `python -m benchmarks.longmemeval --data FILE [--kind s|pool] [--compare]`.

The file is LongMemEval's own, with a haystack of sessions per question (`s`: one store each), or one with all sessions
and all questions (`{"haystack": …, "questions": […]}`; `pool`: one store). Sessions go into a SQLite store through
`add_episodes`, and every question is asked with `retrieve` as of its own date. The sessions that the file lists count
as right. Questions whose id ends in `_abs` have no answer; they are reported separately, as silence.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._data import KINDS, Data, longmemeval
from .._runner import execute, parser
from .._unrelated import UNRELATED

_OF_EACH_STORE = 12


def main(argv: Sequence[str] | None = None) -> int:
    made = parser("longmemeval", __doc__)
    made.add_argument("--kind", choices=KINDS, help="the form of the file (default: detected)")
    options = made.parse_args(argv)
    return execute(
        "LongMemEval", lambda: longmemeval(options.data, options.kind), options, ("session",), each=_unrelated
    )


def _unrelated(data: Data) -> int:
    """Return the unrelated questions for a store: a dozen for each of many small stores, all for one large store."""
    return len(UNRELATED) if data.kind == "pool" else _OF_EACH_STORE
