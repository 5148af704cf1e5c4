"""What a person's edit teaches."""

from __future__ import annotations

import pytest

from alma.engine.distil.edits import Swap, swap


@pytest.mark.parametrize(
    ("change", "file", "taught"),
    [
        ("-const x = require('fs')\n+import x from 'fs'", "a.ts", None),
        ("-var total = 0\n+const total = 0", "src/a.ts", Swap("var", "const", ".ts")),
        ("-var a\n-var b\n+const a\n+const b", "a.js", Swap("var", "const", ".js")),
        ("-print(x)\n+log.info(x)", "run.py", Swap("print", "log.info", ".py")),
        ("-a = 1\n-b = 2\n+c = 3\n+d = 4", "run.py", None),
        ("-a = 1", "run.py", None),
        ("+a = 1", "run.py", None),
        ("", "run.py", None),
        ("-x\n+y", "Makefile", Swap("x", "y", "")),
    ],
)
def test_only_one_small_replacement_teaches(change: str, file: str, taught: Swap | None) -> None:
    assert swap(change, file) == taught
