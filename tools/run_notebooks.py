"""Run the example notebooks and store what their cells print: `python -m tools.run_notebooks`.

Jupyter is not needed: the code cells of a notebook run one after the other in one process, in an empty folder.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent.parent / "examples" / "notebooks"
RUNNER = """
import io, json, sys
from contextlib import redirect_stdout

namespace, outputs = {"__name__": "__main__"}, []
for number, source in enumerate(json.load(sys.stdin), 1):
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(source, f"cell {number}", "exec"), namespace)
    outputs.append(printed.getvalue())
print(json.dumps(outputs))
"""


def read_notebook(notebook: Path) -> dict[str, Any]:
    """Return the notebook's JSON."""
    content: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return content


def read_sources(notebook: Path) -> str:
    """Return the sources of the code cells, as `RUNNER` reads them."""
    cells = [cell for cell in read_notebook(notebook)["cells"] if cell["cell_type"] == "code"]
    return json.dumps(["".join(cell["source"]) for cell in cells])


def run_cells(notebook: Path, folder: Path) -> list[str]:
    """Return what each code cell prints; raise `RuntimeError` with the traceback if one fails."""
    command = [sys.executable, "-W", "error", "-c", RUNNER]
    environment = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        input=read_sources(notebook),
        capture_output=True,
        text=True,
        timeout=120,
    )
    if run.returncode:
        raise RuntimeError(f"{notebook.name}: {run.stderr}")
    outputs: list[str] = json.loads(run.stdout)
    return outputs


def store_outputs(notebook: Path, outputs: list[str]) -> None:
    """Write what the cells printed into the notebook."""
    content = read_notebook(notebook)
    cells = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    for number, (cell, output) in enumerate(zip(cells, outputs, strict=True), 1):
        lines = output.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            store_outputs(notebook, run_cells(notebook, Path(folder)))
        print(f"ran {notebook.name}")


if __name__ == "__main__":
    main()
