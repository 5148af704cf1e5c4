"""Measure how fast the MCP server starts: `python -m benchmarks.mcp [--runs N] [--json]`.

Times are from the start of a process over stdio to the answer to `initialize`, then to the list of tools and the first
retrieval. An empty server of the same SDK is measured alternately in the same run, and the ratio is what counts. Both
times include the start of the interpreter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any

LIMIT = 1.3

EMPTY = """\
import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def main():
    server = Server("empty")
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())

anyio.run(main)
"""

CONFIG = "alma:\n  project_id: bench\n  storage: sqlite\n  storage_dir: store\n"

_CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


@dataclass(frozen=True)
class Start:
    """Milliseconds since the process started; medians of the runs."""

    server: str
    initialize: float
    list_tools: float | None = None
    first_retrieve: float | None = None


class Spoken:
    """A server process and the messages sent to it."""

    def __init__(self, command: Sequence[str], folder: str) -> None:
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._next = 1

    def ask(self, method: str, **params: Any) -> float:
        """Send a request and return the milliseconds from the start of the process until its answer."""
        self._say({"id": self._next, "method": method, "params": params})
        self._next += 1
        answer = json.loads(self._out.readline())
        if "error" in answer:
            raise SystemExit(f"{method}: {answer['error']}")
        return (time.perf_counter() - self._began) * 1000

    def tell(self, method: str) -> None:
        self._say({"method": method})

    def close(self) -> None:
        self._in.close()
        self._process.wait(timeout=30)
        self._out.close()

    def _say(self, message: dict[str, Any]) -> None:
        self._in.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._in.flush()

    @property
    def _in(self) -> IO[str]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def _out(self) -> IO[str]:
        assert self._process.stdout is not None
        return self._process.stdout


def empty(folder: str) -> float:
    server = Spoken([sys.executable, "-c", EMPTY], folder)
    took = server.ask("initialize", **_CLIENT)
    server.close()
    return took


def ours(folder: str) -> tuple[float, float, float]:
    server = Spoken([sys.executable, "-m", "alma.mcp", "--config", "config.yaml"], folder)
    connected = server.ask("initialize", **_CLIENT)
    server.tell("notifications/initialized")
    listed = server.ask("tools/list")
    task = {"task": "Deploy the auth service", "agent": "dev"}
    retrieved = server.ask("tools/call", name="alma_retrieve", arguments=task)
    server.close()
    return connected, listed, retrieved


def measured(runs: int) -> list[Start]:
    with tempfile.TemporaryDirectory(prefix="alma-bench-") as folder:
        (Path(folder) / "config.yaml").write_text(CONFIG, encoding="utf-8")
        # Once beforehand: compiling the modules is paid by the first run only.
        empty(folder), ours(folder)
        rounds = [(empty(folder), ours(folder)) for _ in range(runs)]
    connected, listed, retrieved = (median(one[1][at] for one in rounds) for at in range(3))
    return [Start("empty", median(one[0] for one in rounds)), Start("alma", connected, listed, retrieved)]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    nothing, alma = measured(args.runs)
    ratio = alma.initialize / nothing.initialize
    if args.json:
        print(json.dumps({"servers": [asdict(nothing), asdict(alma)], "ratio": round(ratio, 3)}, indent=2))
    else:
        print(f"empty server of the SDK   initialize answered after {nothing.initialize:6.0f} ms")
        print(f"alma                      initialize answered after {alma.initialize:6.0f} ms")
        print(f"                          tools listed after        {alma.list_tools or 0:6.0f} ms")
        print(f"                          first retrieval after     {alma.first_retrieve or 0:6.0f} ms")
        print(f"ratio {ratio:.2f} (limit {LIMIT}), medians of {args.runs} runs each, in turns")
    return 0 if ratio <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
