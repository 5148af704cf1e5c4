"""How large the code is, how far one call travels through it, and what repeats: `make house`.

Lines of code leave out comments, blank lines and docstrings; tokens leave them out, too, so that longer lines are no
progress. A flow is counted in distinct functions under `src/` that run in one call.
"""

from __future__ import annotations

import ast
import asyncio
import io
import re
import sys
import tempfile
import threading
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
FIRST_LINES, FIRST_FILES, FIRST_TOKENS = 52_042, 450, 491_333
"""The figures of the first version, commit fcba687."""
LIMITS = {"learn": 140, "retrieve": 170, "drain": 200, "ingest": 300, "MCP call": 120}
COPY_LINES = 12
_SILENT = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
_PARTICIPLE = re.compile(r"_?[^_]+(ed|ing|told|said|held|made|kept|given|found|known)")
VAGUE_LOCALS = {"found", "told", "held", "made", "said", "given", "kept"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Trees = dict[str, ast.Module]


def measure_file(path: Path) -> tuple[set[int], int, list[Function], ast.Module]:
    """Return the lines with code, the number of tokens, the functions and the tree of a module."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    documented: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            documented.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    tokens = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT and token.start[0] not in documented:
            lines.update(range(token.start[0], token.end[0] + 1))
            tokens += 1
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return lines - documented, tokens, functions, tree


def count_lazy_imports(tree: ast.Module) -> int:
    """Count the imports inside functions."""
    inner = (node for function in ast.walk(tree) if isinstance(function, Function) for node in ast.walk(function))
    return len({node.lineno for node in inner if isinstance(node, ast.Import | ast.ImportFrom)})


def read_trees() -> Trees:
    """Return the parsed modules under `src/` by path."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def find_vague_locals(trees: Trees) -> tuple[list[str], int]:
    """Return where a local has a name that says nothing, and how many names are assigned in all."""
    assigned = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    vague = [f"{path}:{node.lineno} {node.id}" for path, node in assigned if node.id.strip("_") in VAGUE_LOCALS]
    return vague, len(assigned)


def find_undocumented(trees: Trees) -> tuple[list[str], int]:
    """Return the public functions and classes without a docstring, and how many there are in all."""
    missing: list[str] = []
    total = 0

    def visit(path: str, node: ast.Module | ast.ClassDef) -> None:
        nonlocal total
        for child in node.body:
            if not isinstance(child, ast.ClassDef | Function) or child.name.startswith("_"):
                continue
            decorators = {ast.unparse(one).rsplit(".", 1)[-1] for one in child.decorator_list}
            if decorators & {"overload", "setter"}:
                continue
            total += 1
            if ast.get_docstring(child) is None:
                missing.append(f"{path}:{child.lineno} {child.name}")
            if isinstance(child, ast.ClassDef):
                visit(path, child)

    for path, tree in trees.items():
        visit(path, tree)
    return missing, total


def find_repeated_classes(trees: Trees) -> dict[str, list[str]]:
    """Return the class names that are defined more than once, with the modules that define them."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                modules[node.name].append(path)
    return {name: paths for name, paths in modules.items() if len(paths) > 1}


def find_definitions(tree: ast.Module) -> set[str]:
    """Return the names that a module defines at its top, and those of its classes as `Class.name`."""
    names: set[str] = set()

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(prefix + one.id for one in targets if isinstance(one, ast.Name))
            if isinstance(node, ast.ClassDef | Function):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{node.name}.")

    visit(tree.body, "")
    return names


def describe_names() -> Iterator[str]:
    """Yield lines about names and docstrings."""
    trees = read_trees()
    vague, assigned = find_vague_locals(trees)
    missing, documented = find_undocumented(trees)
    repeated = find_repeated_classes(trees)
    names = "/".join(sorted(VAGUE_LOCALS))
    yield f"locals named {names}: {len(vague)} of {assigned}, {len(vague) / assigned:.1%} (aim 0.5 %)"
    yield f"public functions and classes without a docstring: {len(missing)} of {documented} (aim 0)"
    yield f"class names defined twice: {', '.join(sorted(repeated)) or 'none'} (docs/reference/glossary.md lists them)"


def describe_size() -> Iterator[str]:
    """Yield lines about size, splinters and names."""
    lines = tokens = files = lazy = 0
    functions: list[tuple[Path, Function, int]] = []
    uses: dict[Path, Counter[str]] = {}
    packages: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*.py")):
        coded, number, own, tree = measure_file(path)
        lines, tokens, files = lines + len(coded), tokens + number, files + 1
        lazy += count_lazy_imports(tree)
        place = path.relative_to(SOURCE).parts
        packages[place[1] if place[0] == "alma" and len(place) > 2 else place[0]] += len(coded)
        for one in own:
            size = len(coded & set(range(one.lineno, (one.end_lineno or one.lineno) + 1)))
            functions.append((path, one, size))
        uses[path] = Counter(re.findall(r"[A-Za-z_]\w*", path.read_text(encoding="utf-8")))
    named = [one for one in functions if not one[1].name.startswith("__")]
    everywhere = sum(uses.values(), Counter())
    defined = Counter(one.name for _, one, _ in named)

    def is_used_once(path: Path, name: str) -> bool:
        return uses[path][name] <= 2 if name.startswith("_") else everywhere[name] - defined[name] <= 1

    short = [one for path, one, size in named if size < 8 and is_used_once(path, one.name)]
    private = [(path, one) for path, one, _ in named if one.name.startswith("_")]
    once = [one for path, one in private if is_used_once(path, one.name)]
    single = [one for _, one, _ in functions if "_" not in one.name.strip("_")]
    parts = [one for _, one, _ in functions if _PARTICIPLE.fullmatch(one.name)]
    yield "  ".join(f"{name} {size:,}" for name, size in packages.most_common())
    yield f"lines of code: {lines:,} in {files} files (first: {FIRST_LINES:,} in {FIRST_FILES}; aim 26,000 in 170)"
    yield f"tokens: {tokens:,}, {tokens / FIRST_TOKENS:.3f} of the first version (aim 0.500)"
    for what, some, every, aim in (
        ("functions used once and shorter than 8 lines", short, named, 30),
        ("private functions used once", once, private, 30),
        ("one-word names", single, functions, 40),
        ("participles as names", parts, functions, 2),
    ):
        yield f"{what}: {len(some)} of {len(every)}, {len(some) / len(every):.1%} (aim {aim} %)"
    yield f"imports inside functions: {lazy} (aim 60)"


def find_copies() -> Iterator[str]:
    """Yield runs of at least COPY_LINES equal lines that stand in two packages."""
    places: dict[tuple[str, ...], list[tuple[str, str, int]]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        coded, _, _, tree = measure_file(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                coded -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        text = path.read_text(encoding="utf-8").splitlines()
        kept = [(number, text[number - 1].strip()) for number in sorted(coded)]
        kept = [(number, line) for number, line in kept if len(line) > 3]
        package = "/".join(path.relative_to(SOURCE).parts[:2])
        for start in range(len(kept) - COPY_LINES + 1):
            run = tuple(line for _, line in kept[start : start + COPY_LINES])
            places[run].append((package, str(path.relative_to(SOURCE)), kept[start][0]))
    seen: set[tuple[str, str]] = set()
    for found in places.values():
        pair = (found[0][1], found[-1][1])
        if found[0][0] != found[-1][0] and pair not in seen:
            seen.add(pair)
            yield f"  {found[0][1]}:{found[0][2]} and {found[-1][1]}:{found[-1][2]}"


@contextmanager
def watch_functions() -> Iterator[set[tuple[str, int]]]:
    """Collect the distinct functions under `src/` that run meanwhile, in all threads that start meanwhile."""
    seen: set[tuple[str, int]] = set()
    top = str(SOURCE)

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(top) and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_firstlineno))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def measure_flows(folder: Path) -> Iterator[tuple[str, set[tuple[str, int]]]]:
    """Yield the functions that each of the five flows runs; each was run once before."""
    from alma import ALMA
    from alma.ingestion import ingest_file

    notes = folder / "notes.md"
    with ALMA.quickstart("house", folder / "memory") as alma:
        alma.learn("dev", "Deploy service 1", "success", "Use a blue-green switch")
        with watch_functions() as seen:
            alma.learn("dev", "Deploy service 2", "success", "Use a blue-green switch")
        yield "learn", seen
        alma.retrieve("Deploy the API", "dev")
        with watch_functions() as seen:
            alma.retrieve("Deploy service 3", "dev")
        yield "retrieve", seen
        yield "drain", measure_drain(folder)
        for text in ("The API runs on port 8080. We deploy on Fridays.", "Ana owns billing. Bo tests. Redis queues."):
            notes.write_text(text, encoding="utf-8")
            with watch_functions() as seen:
                ingest_file(notes, "dev", alma=alma)
        yield "ingest", seen
        yield "MCP call", asyncio.run(measure_mcp_call(alma))


def measure_drain(folder: Path) -> set[tuple[str, int]]:
    from alma.hooks import journal
    from alma.hooks.drain import ProjectMemories, drain
    from alma.hooks.paths import DataDir

    place = DataDir(str(folder / "home"))
    prompt = "No, use pnpm instead of npm in this repo."
    events = [("SessionStart", {"source": "startup"}), ("UserPromptSubmit", {"prompt": prompt}), ("SessionEnd", {})]
    with ProjectMemories(place) as memory:
        for session in ("s1", "s2"):
            for number, (name, data) in enumerate(events):
                line = {"v": 1, "id": f"{session}-{number}", "at": time.time(), "event": name, "session": session}
                line |= {"project": "git:example.org/a", "cwd": "/w", "agent_id": "", "entry": "cli", "data": data}
                journal.append_line(place, session, line)
            with watch_functions() as seen:
                drain(place, memory=memory)
    return seen


async def measure_mcp_call(alma: Any) -> set[tuple[str, int]]:
    from alma.mcp.server import build
    from alma.projects import LazyMemory
    from mcp import Client

    async with Client(build(LazyMemory(lambda: alma))) as client:
        # Threads that were started unwatched stay so: the first call is watched, too.
        with watch_functions() as seen:
            for fact in ("The API runs on port 8080.", "The queue runs on Redis."):
                seen.clear()
                await client.call_tool("alma_add_knowledge", {"agent": "dev", "domain": "deploy", "fact": fact})
    return seen


def main() -> None:
    for line in (*describe_size(), *describe_names()):
        print(line)
    print(f"copies of {COPY_LINES} lines or more between packages:")
    print("\n".join(find_copies()) or "  none")
    with tempfile.TemporaryDirectory() as folder:
        for name, seen in measure_flows(Path(folder)):
            files = len({file for file, _ in seen})
            print(f"{name}: {len(seen)} functions in {files} files (aim {LIMITS[name]})")


if __name__ == "__main__":
    main()
