"""Measure retrieval on LoCoMo: `python -m benchmarks.locomo --data FILE [--compare] [--json]`.

The file is LoCoMo's own. Every conversation goes into its own SQLite store through `add_episodes`, and every question
is asked with `retrieve`, once for sessions and once for turns. The evidence that the file lists counts as right.
Adversarial questions have no answer in the conversation; they are reported separately, as silence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ._data import locomo
from ._runner import execute, parser
from ._unrelated import UNRELATED


def main(argv: Sequence[str] | None = None) -> int:
    options = parser("locomo", __doc__).parse_args(argv)
    return execute(
        "LoCoMo", lambda: locomo(options.data), options, ("session", "turn"), each=lambda data: len(UNRELATED)
    )


if __name__ == "__main__":
    sys.exit(main())
