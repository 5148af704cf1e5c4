"""Change one operator or constant at a time, and see which test suites notice: `python -m tools.mutants --help`.

`draw` chooses mutants in functions whose text is the same in two trees, so that both suites get the same mutants.
`probe` runs a tree's whole suite once and records which tests reach each mutant. `run` applies the mutants one after
another in the tree's own files, and runs only the tests that reach them. `table` compares the results of all trees.

    python -m tools.mutants draw --beside ../old
    python -m tools.mutants probe --tree ../copy -- -n 2 -m "not quality"
    python -m tools.mutants run --tree ../copy
    python -m tools.mutants table

Use trees made for this, each with a `.venv`: their sources change meanwhile. A process that outlives the test which
started it, and a fixture that several files share, are attributed to the tests that run at that moment, so a test that
checks them later can be missed. At most `--most` tests run for a mutant, and at most `--seconds` of tests: first those
of the package's own test folder, the fastest first. A test that fails without the mutant does not count, and a test
that fails in the probe run is left out.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "stores", "hooks", "http")
TIMEOUT = 240
"""Seconds after which the tests of a mutant count as failed, on a machine with nothing beside them."""
MOST_SECONDS = 120
"""Seconds that the tests chosen for one mutant took in the probe run, at most."""
_COMPARISONS: dict[type[ast.cmpop], tuple[str, list[str]]] = {
    ast.Lt: ("<", ["<=", ">="]),
    ast.LtE: ("<=", ["<", ">"]),
    ast.Gt: (">", [">=", "<="]),
    ast.GtE: (">=", [">", "<"]),
    ast.Eq: ("==", ["!="]),
    ast.NotEq: ("!=", ["=="]),
    ast.Is: ("is", ["is not"]),
    ast.IsNot: ("is not", ["is"]),
    ast.In: ("in", ["not in"]),
    ast.NotIn: ("not in", ["in"]),
}
_ARITHMETIC: dict[type[ast.operator], tuple[str, list[str]]] = {
    ast.Add: ("+", ["-"]),
    ast.Sub: ("-", ["+"]),
    ast.Mult: ("*", ["/"]),
    ast.Div: ("/", ["*"]),
    ast.FloorDiv: ("//", ["*"]),
    ast.Mod: ("%", ["*"]),
}
_TEXT = ast.Constant | ast.JoinedStr | ast.List
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """A replacement in a function. Positions count from the function's first byte and first line."""

    number: int
    package: str
    path: str
    function: str
    digest: str
    start: int
    original: str
    replacement: str
    line: int
    statement_line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.function}: `{self.original}` -> `{self.replacement}`"


# -- reading sources


@dataclass(frozen=True)
class Source:
    """The bytes of a module, with the places of its functions."""

    content: bytes
    line_starts: list[int]
    functions: list[tuple[str, Function]]

    def find_offset(self, line: int, column: int) -> int:
        return self.line_starts[line - 1] + column

    def find_start(self, node: ast.expr | ast.stmt) -> int:
        return self.find_offset(node.lineno, node.col_offset)

    def find_end(self, node: ast.expr | ast.stmt) -> int:
        return self.find_offset(node.end_lineno or 0, node.end_col_offset or 0)

    def compute_digest(self, function: Function) -> str:
        text = self.content[self.find_start(function) : self.find_end(function)]
        return hashlib.sha256(text).hexdigest()[:16]

    def starts_line(self, statement: ast.stmt) -> bool:
        """Return whether a line can be inserted before a statement."""
        start = self.find_start(statement)
        before = self.content[self.line_starts[statement.lineno - 1] : start]
        return not before.strip() and not self.content[start:].startswith(b"elif")


def read_source(content: bytes) -> Source:
    """Parse a module."""
    line_starts = [0]
    for line in content.splitlines(keepends=True):
        line_starts.append(line_starts[-1] + len(line))
    return Source(content, line_starts, list(_list_functions(ast.parse(content), "")))


def _list_functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield prefix + child.name, child
            yield from _list_functions(child, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _list_functions(child, f"{prefix}{child.name}.")
        else:
            yield from _list_functions(child, prefix)


# -- drawing mutants


@dataclass(frozen=True)
class Edit:
    """A replacement in a module, and the statement before which it can be noticed."""

    start: int
    original: str
    replacement: str
    statement: ast.stmt


def _list_code(source: Source, parent: ast.AST, statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, ast.stmt]]:
    """Yield what a function runs, each with its statement: no annotations, logging, f-strings or inner functions."""
    for name, value in ast.iter_fields(parent):
        if name in ("annotation", "decorator_list", "args") and not isinstance(parent, ast.Call):
            continue
        for child in value if isinstance(value, list) else [value]:
            is_skipped = isinstance(child, Function | ast.ClassDef | ast.JoinedStr) or _is_logging(child)
            if not isinstance(child, ast.AST) or is_skipped:
                continue
            inner = child if isinstance(child, ast.stmt) and source.starts_line(child) else statement
            if isinstance(child, ast.expr | ast.stmt):
                yield child, inner
            yield from _list_code(source, child, inner)


def _is_logging(node: Any) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).lower().startswith(("_log.", "log.", "logging."))


def list_edits(source: Source, function: Function) -> Iterator[Edit]:
    """Yield every replacement that can be made in a function."""
    for node, statement in _list_code(source, function, function.body[0]):
        if isinstance(node, ast.Compare):
            yield from _edit_comparison(source, node, statement)
        elif isinstance(node, ast.BoolOp):
            word = "and" if isinstance(node.op, ast.And) else "or"
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from _edit_between(source, left, right, word, ["or" if word == "and" else "and"], statement)
        elif isinstance(node, ast.BinOp) and not isinstance(node.left, _TEXT) and not isinstance(node.right, _TEXT):
            sign, others = _ARITHMETIC.get(type(node.op), ("", []))
            yield from _edit_between(source, node.left, node.right, sign, others, statement)
        elif isinstance(node, ast.AugAssign) and not isinstance(node.value, _TEXT):
            sign, others = _ARITHMETIC.get(type(node.op), ("", []))
            yield from _edit_between(source, node.target, node.value, sign, others, statement)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = source.find_start(node)
            word_and_space = re.match(rb"not\s*", source.content[start:])
            if word_and_space:
                yield Edit(start, word_and_space[0].decode(), "", statement)
        elif isinstance(node, ast.Constant) and type(node.value) in (bool, int, float):
            yield _edit_constant(source, node, str(_change_number(node.value)), statement)


def _change_number(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 or 1.0


def _edit_comparison(source: Source, node: ast.Compare, statement: ast.stmt) -> Iterator[Edit]:
    operands = [node.left, *node.comparators]
    for left, right, operator in zip(operands, node.comparators, node.ops, strict=False):
        sign, others = _COMPARISONS[type(operator)]
        yield from _edit_between(source, left, right, sign, others, statement)
    for operand in operands:
        elements = operand.elts if isinstance(operand, ast.Tuple | ast.Set | ast.List) else [operand]
        for element in elements:
            if isinstance(element, ast.Constant) and isinstance(element.value, str):
                text = source.content[source.find_start(element) : source.find_end(element)].decode()
                yield _edit_constant(source, element, f"{text[:-1]}x{text[-1]}", statement)


def _edit_constant(source: Source, node: ast.Constant, replacement: str, statement: ast.stmt) -> Edit:
    start, end = source.find_start(node), source.find_end(node)
    return Edit(start, source.content[start:end].decode(), replacement, statement)


def _edit_between(
    source: Source, left: ast.expr, right: ast.expr, sign: str, others: list[str], statement: ast.stmt
) -> Iterator[Edit]:
    """Yield the replacements of an operator, which is between its two operands."""
    start = source.find_end(left)
    gap = source.content[start : source.find_start(right)].decode()
    place = gap.find(sign)
    if place >= 0 and "#" not in gap:
        for other in others:
            yield Edit(start + place, sign, other, statement)


def list_mutants(tree: Path, beside: Path | None, package: str) -> Iterator[Mutant]:
    """Yield all mutants of a package, in the functions that have the same text in the tree beside this one."""
    for path in sorted((tree / "src" / "alma" / package).rglob("*.py")):
        name = path.relative_to(tree).as_posix()
        source = read_source(path.read_bytes())
        other_path = (beside or tree) / name
        other = read_source(other_path.read_bytes() if other_path.exists() else b"")
        known = {(function_name, other.compute_digest(function)) for function_name, function in other.functions}
        for function_name, function in source.functions:
            digest = source.compute_digest(function)
            if (function_name, digest) not in known:
                continue
            for edit in list_edits(source, function):
                yield Mutant(
                    number=0,
                    package=package,
                    path=name,
                    function=function_name,
                    digest=digest,
                    start=edit.start - source.find_start(function),
                    original=edit.original,
                    replacement=edit.replacement,
                    line=source.content.count(b"\n", 0, edit.start) + 1,
                    statement_line=edit.statement.lineno - function.lineno,
                )


def draw_mutants(tree: Path, beside: Path | None, number: int, seed: int) -> list[Mutant]:
    """Draw mutants, the same number in each package and at most one in a function."""
    drawn: list[Mutant] = []
    for package in PACKAGES:
        candidates = list(list_mutants(tree, beside, package))
        random.Random(f"{seed} {package}").shuffle(candidates)
        functions: set[tuple[str, str]] = set()
        for candidate in candidates:
            place = (candidate.path, candidate.function)
            if len(functions) == number // len(PACKAGES) or place in functions or not _can_compile(tree, candidate):
                continue
            functions.add(place)
            drawn.append(Mutant(**{**asdict(candidate), "number": len(drawn) + 1}))
    return drawn


def _can_compile(tree: Path, mutant: Mutant) -> bool:
    try:
        compile(mutate_module(tree, mutant), mutant.path, "exec")
    except SyntaxError:
        return False
    return True


# -- changing a tree


def find_function(source: Source, mutant: Mutant) -> Function:
    """Return the function of a mutant in a module that may have other functions before it."""
    for name, function in source.functions:
        if name == mutant.function and source.compute_digest(function) == mutant.digest:
            return function
    raise SystemExit(f"{mutant.path} has no function {mutant.function} with the text that was drawn")


def mutate_module(tree: Path, mutant: Mutant) -> bytes:
    """Return the module of a mutant with its replacement made."""
    source = read_source((tree / mutant.path).read_bytes())
    start = source.find_start(find_function(source, mutant)) + mutant.start
    end = start + len(mutant.original.encode())
    if source.content[start:end] != mutant.original.encode():
        raise SystemExit(f"`{mutant.original}` is not at its place in {mutant.path}")
    return source.content[:start] + mutant.replacement.encode() + source.content[end:]


def insert_probes(content: bytes, mutants: Sequence[Mutant]) -> bytes:
    """Return a module with a call before the statement of each mutant."""
    source = read_source(content)
    lines = content.splitlines(keepends=True)
    probes = []
    for mutant in mutants:
        line = find_function(source, mutant).lineno + mutant.statement_line
        probes.append((line, mutant.number))
    for line, number in sorted(probes, reverse=True):
        code = lines[line - 1]
        indent = code[: len(code) - len(code.lstrip())]
        lines.insert(line - 1, indent + f'__import__("mutant_probe").reach({number})\n'.encode())
    return b"".join(lines)


@contextmanager
def replace_modules(tree: Path, modules: dict[str, bytes]) -> Iterator[None]:
    """Change modules of a tree, and restore them at the end."""
    originals = {path: (tree / path).read_bytes() for path in modules}
    try:
        for path, content in modules.items():
            (tree / path).write_bytes(content)
        yield
    finally:
        for path, content in originals.items():
            (tree / path).write_bytes(content)


# -- running tests


class Suite:
    """The tests of a tree, run with the probe and the plugin in its environment."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree.resolve()
        self.python = self.tree / ".venv" / "bin" / "python"
        # Not in site-packages: hooks start without them.
        self.folder = self.tree / "src"
        for name in ("mutant_probe.py", "mutant_plugin.py"):
            shutil.copy(Path(__file__).with_name(name), self.folder / name)
        self.selected = self.folder / "mutant_probe.selected"
        self.report = self.folder / "mutant_probe.report"
        self.reached = self.folder / "mutant_probe.reached"
        self.reached.unlink(missing_ok=True)

    def run_tests(self, tests: list[str] | None, arguments: Sequence[str], log: Path, timeout: int | None) -> Any:
        """Run the given tests, or all of them. Return durations and failures, or None after a timeout."""
        self.report.unlink(missing_ok=True)
        self.selected.unlink(missing_ok=True)
        files: list[str] = []
        if tests is not None:
            self.selected.write_text(json.dumps(tests), encoding="utf-8")
            files = sorted({test.partition("::")[0] for test in tests})
        command = [str(self.python), "-m", "pytest", "-p", "mutant_plugin", "-q", *arguments, *files]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=self.tree, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                return None
            finally:
                _end_group(process)
                self.selected.unlink(missing_ok=True)
        if not self.report.exists():
            return {"durations": {}, "failures": {"pytest": log.read_text(errors="replace")[-600:]}}
        report = json.loads(self.report.read_text(encoding="utf-8"))
        if not report["durations"] and process.returncode in (0, 5):
            raise SystemExit(f"pytest ran no test; see {log}")
        if process.returncode not in (0, 1, 5):
            report["failures"].setdefault("pytest", log.read_text(errors="replace")[-600:])
        return report


@contextmanager
def open_suite(tree: Path) -> Iterator[Suite]:
    """Yield the suite of a tree, and remove the files of the probe at the end."""
    suite = Suite(tree)
    try:
        yield suite
    finally:
        shutil.rmtree(suite.folder / "mutant_probe.running", ignore_errors=True)
        for path in suite.folder.glob("mutant_p*"):
            path.unlink()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


@dataclass(frozen=True)
class Choice:
    """The tests that run for a mutant, and how many reach it."""

    tests: list[str]
    reaching: int


def choose_tests(
    probe: dict[str, Any], mutant: Mutant, most: int, matching: str, most_seconds: int = MOST_SECONDS
) -> Choice:
    """Choose tests of the package's own folder first, the fastest first, and sort them by file.

    `matching` is a part of their names.
    """
    durations: dict[str, float] = probe["durations"]
    own_folder = f"tests/{mutant.package}/"
    reaching = [name for name in probe["reached"].get(str(mutant.number), []) if name not in probe["failures"]]
    reaching = [name for name in reaching if matching in name]
    reaching.sort(key=lambda name: (not name.startswith(own_folder), durations.get(name, 0.0)))
    chosen: list[str] = []
    seconds = 0.0
    for name in reaching[:most]:
        seconds += durations.get(name, 0.0)
        if chosen and seconds > most_seconds:
            break
        chosen.append(name)
    slowest = {name.partition("::")[0]: durations.get(name, 0.0) for name in chosen}
    chosen.sort(key=lambda name: (slowest[name.partition("::")[0]], name.partition("::")[0]))
    return Choice(chosen, len(reaching))


def run_mutant(suite: Suite, mutant: Mutant, choice: Choice, folder: Path, timeout: int) -> dict[str, Any]:
    """Run the chosen tests on a mutant. A failure counts if the same test passes without the mutant."""
    log = folder / f"{suite.tree.name}-{mutant.number}.log"
    tests = choice.tests
    result = {"reaching": choice.reaching, "tests": len(tests), "capped": len(tests) < choice.reaching}
    began = time.monotonic()
    caught_by, failure = "", ""
    while tests and not caught_by:
        with replace_modules(suite.tree, {mutant.path: mutate_module(suite.tree, mutant)}):
            report = suite.run_tests(tests, ["-x", "-p", "no:cacheprovider"], log, timeout)
        if report is None:
            caught_by = "timeout"
        elif not report["failures"]:
            break
        else:
            name, failure = next(iter(report["failures"].items()))
            is_test = name in tests
            clean_log = log.with_suffix(".clean.log")
            clean = suite.run_tests([name] if is_test else tests[:1], [], clean_log, timeout)
            if clean is not None and not clean["failures"]:
                caught_by = name
            tests = [test for test in tests if test != name] if is_test else []
    seconds = round(time.monotonic() - began, 1)
    return {**result, "caught": bool(caught_by), "by": caught_by, "failure": failure, "seconds": seconds}


# -- commands


def run_draw(options: argparse.Namespace) -> None:
    """Draw mutants and print them."""
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    mutants = draw_mutants(ROOT, options.beside, options.number, seed)
    _save(options.folder / "mutants.json", {"seed": seed, "mutants": [asdict(mutant) for mutant in mutants]})
    print(f"seed {seed}")
    for mutant in mutants:
        print(f"{mutant.number:3} {mutant}")


def run_probe(options: argparse.Namespace) -> None:
    """Run a whole suite once, and save which tests reach which mutant."""
    mutants = _load_mutants(options.folder)
    arguments = [argument for argument in options.arguments if argument != "--"]
    with open_suite(options.tree) as suite:
        modules = {}
        for path in {mutant.path for mutant in mutants}:
            inside = [mutant for mutant in mutants if mutant.path == path]
            modules[path] = insert_probes((suite.tree / path).read_bytes(), inside)
        with replace_modules(suite.tree, modules):
            probe = suite.run_tests(None, arguments, options.folder / f"{suite.tree.name}-probe.log", options.seconds)
        if probe is None:
            probe = json.loads(suite.report.read_text(encoding="utf-8"))
            print(f"stopped after {options.seconds} s")
        probe["reached"] = read_reached(suite.reached, list(probe["durations"]))
    _save(options.folder / f"{suite.tree.name}-probe.json", probe)
    unreached = [mutant.number for mutant in mutants if str(mutant.number) not in probe["reached"]]
    print(f"{len(probe['durations'])} tests; {len(probe['failures'])} failed; mutants without a test: {unreached}")


def read_reached(path: Path, tests: list[str]) -> dict[str, list[str]]:
    """Return the tests that reach each mutant: with a fixture that reaches it, all tests of the file."""
    reached: dict[str, dict[str, None]] = {}
    files: dict[str, set[str]] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        number, name, phase = line.split("\t")
        reached.setdefault(number, {})[name] = None
        if phase == "setup":
            files.setdefault(number, set()).add(name.partition("::")[0])
    for number, names in files.items():
        for test in tests:
            if test.partition("::")[0] in names:
                reached[number][test] = None
    return {number: list(names) for number, names in reached.items()}


def run_mutants(options: argparse.Namespace) -> None:
    """Run each mutant that has no result yet, or those that are named."""
    name = options.tree.resolve().name
    probe = json.loads((options.folder / f"{name}-probe.json").read_text(encoding="utf-8"))
    path = options.folder / f"{name}-results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    mutants = _load_mutants(options.folder)
    if options.only:
        mutants = [mutant for mutant in mutants if mutant.number in options.only]
    else:
        mutants = [mutant for mutant in mutants if str(mutant.number) not in results]
    with open_suite(options.tree) as suite:
        for mutant in mutants:
            choice = choose_tests(probe, mutant, options.most, options.matching, options.seconds)
            result = run_mutant(suite, mutant, choice, options.folder, options.timeout)
            results[str(mutant.number)] = result
            _save(path, results)
            verdict = f"caught by {result['by']}" if result["caught"] else "MISSED"
            cap = f" of {choice.reaching}" if result["capped"] else ""
            print(f"{mutant.number:3} {mutant}: {verdict} ({len(choice.tests)}{cap} tests, {result['seconds']} s)")
            sys.stdout.flush()


def print_table(options: argparse.Namespace) -> None:
    """Print how many mutants of each package each suite caught."""
    mutants = _load_mutants(options.folder)
    drawn = Counter(mutant.package for mutant in mutants)
    for path in sorted(options.folder.glob("*-results.json")):
        results = json.loads(path.read_text(encoding="utf-8"))
        caught: Counter[str] = Counter()
        missed: list[Mutant] = []
        for mutant in mutants:
            result = results.get(str(mutant.number))
            if result and result["caught"]:
                caught[mutant.package] += 1
            elif result:
                missed.append(mutant)
        counts = ", ".join(f"{package} {caught[package]} of {drawn[package]}" for package in PACKAGES)
        print(f"{path.name.removesuffix('-results.json')}: {len(results)} run; caught {counts}")
        for mutant in missed:
            print(f"  missed {mutant.number:3} {mutant}")


def _save(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def _load_mutants(folder: Path) -> list[Mutant]:
    data = json.loads((folder / "mutants.json").read_text(encoding="utf-8"))
    return [Mutant(**fields) for fields in data["mutants"]]


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "mutants", help="where the results are kept")
    commands = parser.add_subparsers(required=True)

    def add_command(name: str, function: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=(function.__doc__ or "").partition("\n")[0])
        command.set_defaults(function=function)
        return command

    draw = add_command("draw", run_draw)
    draw.add_argument("--number", type=int, default=40)
    draw.add_argument("--seed", type=int)
    draw.add_argument("--beside", type=Path, help="a second tree; only functions with the same text in both are used")
    probe = add_command("probe", run_probe)
    run = add_command("run", run_mutants)
    for command in (probe, run):
        command.add_argument("--tree", type=Path, required=True, help="a tree made for this: its sources change")
    probe.add_argument("--seconds", type=int, help="stop the suite after this time, and use what it did until then")
    probe.add_argument("arguments", nargs="*", help="arguments for pytest, after --")
    run.add_argument("--only", type=int, nargs="+", help="the numbers of mutants, also of those with a result")
    run.add_argument("--most", type=int, default=150, help="the tests that run for one mutant, at most")
    run.add_argument("--timeout", type=int, default=TIMEOUT, help="seconds; more where others use the machine, too")
    run.add_argument(
        "--seconds", type=int, default=MOST_SECONDS, help="the seconds that these took in the probe run, at most"
    )
    run.add_argument("--matching", default="", metavar="TEXT", help="run only tests whose name contains this")
    add_command("table", print_table)
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
