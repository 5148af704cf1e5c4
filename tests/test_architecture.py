"""Who may import whom. The layers are those of docs/explanation/architecture.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from alma import engine as engine_package

SOURCE = Path(__file__).parent.parent / "src" / "alma"

BELOW_APP = {
    "types",
    "errors",
    "ports",
    "engine",
    "memory",
    "aio",
    "config",
    "stores",
    "embedders",
    "models",
    "domains",
    "files",
    "trust_register",
}
FEATURES = {
    "confidence",
    "context",
    "domains",
    "extraction",
    "graph",
    "harness",
    "ingestion",
    "inspection",
    "progress",
    "rulefiles",
    "session",
    "workflow",
}
# What every layer may use: it imports nothing else of alma.
BASE = {"errors", "forks", "text", "source_text", "word_prints", "hand_ins", "files", "processes", "people"}
# What a module declares its operations with.
DECLARING = {"operations", "words"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    # Parts by name, and those of other packages. It imports what a name stands for, and knows none of it.
    "registries": {"errors"},
    # What a fork waits for; needed wherever there is a lock.
    "forks": set(),
    # Loaded by hooks, which cannot wait for all of `types`.
    "text": set(),
    "types": {"errors", "forks", "registries", "text"},
    "ports": {"types", "errors"},
    "files": {"errors"},
    # Loaded by hooks.
    "processes": set(),
    "people": {"errors", "processes"},
    # What git tracks.
    "tracked": set(),
    "source_text": set(),
    "word_prints": {"source_text"},
    "hand_ins": set(),
    "trust_register": {"errors", "files", "processes", "tracked"},
    "ignore": set(),
    "stores": {"forks", "files", "registries", "retry", "trust_register", "ports", "types", "errors"},
    "retry": set(),
    "embedders": {"forks", "registries", "retry", "ports", "types", "errors"},
    "reading": {"ports", "types", "errors"},
    # From records to the values of features.
    "codec": {"types"},
    # The events of a coding session. Its texts are cut without their secrets, by the engine's rules.
    "coding": {"text", "reading", "engine"},
    "engine": {"forks", "text", "reading", "coding", "ports", "types", "errors"},
    # Features: they use the engine, and open a memory only when they are given none.
    "domains": {*DECLARING, "opening", "engine", "ports", "types", "errors", "memory", "app"},
    "progress": {*DECLARING, "codec", "opening", "engine", "ports", "types", "errors", "memory", "app"},
    "session": {
        *DECLARING,
        "codec",
        "opening",
        "reading",
        "engine",
        "ports",
        "types",
        "errors",
        "progress",
        "domains",
        "memory",
        "app",
    },
    "harness": {"opening", "engine", "types", "errors", "memory", "app", "domains"},
    "workflow": {*DECLARING, "codec", "opening", "engine", "ports", "types", "errors", "memory", "app"},
    "context": {*DECLARING, "engine", "types", "errors", "memory", "session"},
    "confidence": {*DECLARING, "engine", "ports", "types", "errors", "memory"},
    "extraction": {*DECLARING, "opening", "engine", "reading", "ports", "types", "errors", "progress", "memory", "app"},
    "graph": {
        *DECLARING,
        *("opening", "reading", "engine", "ports", "types", "errors", "files", "trust_register", "memory", "app"),
    },
    "ingestion": {
        "ignore",
        "tracked",
        "opening",
        "coding",
        "engine",
        "ports",
        "types",
        "errors",
        "extraction",
        "graph",
        "memory",
        "app",
    },
    "inspection": {*DECLARING, "schema", "engine", "ports", "types", "errors", "memory"},
    "rulefiles": {"opening", "reading", "engine", "ports", "types", "errors", "memory", "app"},
    # How a feature comes by a memory that it was not given.
    "opening": {"engine", "ports", "types", "errors", "memory", "app"},
    # Files that people write, and sockets that others may reach: shared by the doors.
    "jsonc": {"errors"},
    "toml": {"errors"},
    "listening": {"errors"},
    "connections": {"listening", "errors"},
    # What can be done with a memory, how it is described to others and written as JSON.
    "schema": {"types", "errors"},
    # The modules that declare operations are loaded by name, when the operations are listed.
    "operations": FEATURES | {"memory", "knowledge", "events", "schema", "engine", "types", "errors"},
    "words": {"operations", "schema", "engine", "types", "errors"},
    # `ALMA.from_config` is wired by app when it is called; nothing else of memory may reach up.
    "memory": {
        *("opening", "operations", "words", "schema", "engine", "ports", "types", "errors"),
        *("app", "extraction", "harness", "remote"),
    },
    # First names of modules.
    "core": {"memory"},
    "exceptions": {"errors"},
    "storage": {"ports", "stores"},
    # What servers need around a memory: bounds for callers, several projects, files for a whole memory.
    "projects": {"operations", "words", "memory", "domains", "engine", "events", "ports", "types", "errors", "app"},
    "knowledge": {
        *("memory", "operations", "words", "ingestion"),
        *("models", "engine", "types", "errors"),
    },
    "remote": {"memory", "operations", "words", "schema", "engine", "types", "errors", "listening", "harness"},
    "aio": {"memory", "ports", "remote"},
    "config": {"engine", "types", "errors", "trust_register"},
    "app": BELOW_APP,
    # What a person may ask of a memory's inside, and files for a whole memory.
    "upkeep": BELOW_APP | {"app"},
    "migration": BELOW_APP | {"app"},
    "doctor": BELOW_APP | {"app", "upkeep"},
    "testing": {"ports", "types", "errors", "stores", "graph"},
    "models": {"engine", "ports", "types", "errors", "files", "retry", "jsonc", "toml"},
    # Adapters for coding agents. Their hot path reads the store's file itself: it has no time to open a memory.
    "hooks": {
        *("ignore", "opening", "app", "coding", "config", "memory", "engine", "models", "ports", "types", "errors"),
        # How exchanges are shown to a reader, and its notes are checked.
        *("trust_register", "reading"),
    },
    "mcp": {
        *("jsonc", "toml", "files", "listening", "connections", "trust_register"),
        *("operations", "schema", "projects", "app", "config", "memory", "types", "errors"),
        "upkeep",
    },
    "http": {
        *("listening", "connections", "files", "trust_register", "app", "config", "memory", "types", "errors"),
        *("operations", "schema", "words", "remote", "projects", "tracing", "events", "inspection"),
    },
    "tracing": {"memory", "errors"},
    # Events of a memory, and their deliveries.
    "events": {*DECLARING, "engine", "memory", "retry", "types", "errors"},
    "cli": {
        *("mcp", "http", "operations", "schema", "app", "config", "memory", "upkeep", "doctor", "migration"),
        *("files", "text", "trust_register", "types", "errors"),
        *("knowledge", "graph", "rulefiles"),
        # What a caller who is no person may do.
        "projects",
        # Only to start a database.
        "stores",
    },
}
# Features declare their operations.
for _feature in FEATURES:
    MAY_IMPORT[_feature] |= {"memory", "operations", "words"}
# Inside the engine, too: a module imports those of its own step and of earlier ones.
ENGINE_STEPS = (
    {
        "calls",
        "evidence",
        "redact",
        "validate",
        "context",
        "escape",
        "safety",
        "literals",
        "reversals",
        "typed_statements",
    },
    {"admit", "changes", "events", "rule_lines", "tombstones", "transaction", "view"},
    {"search", "past", "pages", "sameness"},
    {"episodes", "facts", "outcomes"},
    {"erase", "proof", "rules", "predict", "retrieve"},
    {"accounts", "conflicts", "edit", "exchanges", "gists", "observations", "prompt"},
    {"acceptance", "basis", "coding_sessions", "rewording"},
    {"upkeep", "consolidate", "promotion", "transfer", "team"},
    {"history", "retention", "explanations"},
)
# Only these may look inside a memory: faces go through its operations.
MAY_REACH_ENGINE = FEATURES | {"engine", "memory", "models", "hooks", "app"}
MAY_REACH_ENGINE |= {"upkeep", "doctor", "knowledge", "projects", "tracing", "events"}
MOST_LATE_IMPORTS = 104
# One name, one class. These are still to be renamed; none may be added.
STANDARD_ONLY = {"types", "errors", "forks"}
LATE = {("memory", "app"), ("memory", "harness"), ("memory", "remote"), ("operations", "memory")} | {
    (feature, "app") for feature in FEATURES | {"opening"}
}
LATE |= {("operations", feature) for feature in FEATURES}


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def module_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def layer(file: Path, source: Path = SOURCE) -> str:
    parts = file.relative_to(source).parts
    return parts[0].removesuffix(".py")


def imports(file: Path, source: Path = SOURCE) -> tuple[tuple[str, bool], ...]:
    """Return absolute names of what a module imports, and whether that happens while it is being loaded."""
    return list_imports(file, source)


@cache
def list_imports(file: Path, source: Path) -> tuple[tuple[str, bool], ...]:
    return tuple(find_imports(file, source))


def find_imports(file: Path, source: Path) -> Iterator[tuple[str, bool]]:
    tree = parse(file)
    package = ("alma", *file.relative_to(source).parts[:-1])
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    naming = [call for call in calls if name_function(call).endswith(("getLogger", "Registry"))]
    labels = {id(label) for call in naming for label in call.args}
    for node, early in walk(tree):
        if id(node) in labels:
            continue
        if isinstance(node, ast.Import):
            yield from ((name.name, early) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((name, early) for name in origins(node, package))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_module(node.value):
            # Imported by its name, when it is needed.
            yield node.value, False


def is_module(name: str) -> bool:
    """Whether a text names a module of alma."""
    parts = name.split(".")
    if parts[0] != "alma" or len(parts) < 2 or not all(map(str.isidentifier, parts)):
        return False
    place = SOURCE.joinpath(*parts[1:])
    return place.with_suffix(".py").is_file() or place.joinpath("__init__.py").is_file()


def origins(node: ast.ImportFrom, package: tuple[str, ...]) -> list[str]:
    if not node.level:
        return [f"alma.{name.name}" for name in node.names] if node.module == "alma" else [node.module or ""]
    base = ".".join(package[: len(package) - node.level + 1])
    if node.module:
        return [f"{base}.{node.module}"]
    return [f"{base}.{name.name}" for name in node.names]


def name_function(call: ast.Call) -> str:
    """Return the last name of the function that is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def walk(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the nodes of a tree in their order, and whether they run while the module is being loaded."""
    waiting = [(child, True) for child in reversed(list(ast.iter_child_nodes(tree)))]
    while waiting:
        node, early = waiting.pop()
        yield node, early
        late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _type_checking(node)
        waiting += [(child, early and not late) for child in reversed(list(ast.iter_child_nodes(node)))]


def _type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def violations(file: Path, source: Path = SOURCE) -> list[str]:
    own = layer(file, source)
    found = []
    for name, early in imports(file, source):
        parts = name.split(".")
        if parts[0] != "alma" or len(parts) < 2 or parts[1] in (own, "__version__") or own.startswith("__"):
            continue
        if parts[1] not in MAY_IMPORT.get(own, set()) | BASE or (early and (own, parts[1]) in LATE):
            found.append(f"{file.relative_to(source)} ({own}) imports {name}")
    return found


def test_every_layer_is_known() -> None:
    unknown = {layer(file) for file in module_files()} - MAY_IMPORT.keys() - {"__init__", "__main__"}
    assert not unknown, f"add these to the table and to the architecture page: {unknown}"


def test_a_layer_imports_only_what_it_may() -> None:
    wrong = [violation for file in module_files() for violation in violations(file)]
    assert not wrong


def test_a_crossed_layer_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    bad = tmp_path / "engine" / "sneaky.py"
    bad.write_text("from ..stores.sqlite import SQLiteStore\nfrom .. import config\n")
    assert violations(bad, tmp_path) == [
        "engine/sneaky.py (engine) imports alma.stores.sqlite",
        "engine/sneaky.py (engine) imports alma.config",
    ]


def test_names_of_modules_and_absolute_imports_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    bad = tmp_path / "engine" / "sneaky.py"
    bad.write_text('from alma import config\nimport_module("alma.stores.sqlite")\n')
    assert violations(bad, tmp_path) == [
        "engine/sneaky.py (engine) imports alma.config",
        "engine/sneaky.py (engine) imports alma.stores.sqlite",
    ]


def test_the_steps_of_the_engine_run_one_way() -> None:
    step = {name: number for number, names in enumerate(ENGINE_STEPS) for name in names}
    wrong = []
    for file in (SOURCE / "engine").rglob("*.py"):
        own = file.relative_to(SOURCE / "engine").parts[0].removesuffix(".py")
        for name, early in imports(file):
            parts = name.split(".")
            if own != "__init__" and early and parts[:2] == ["alma", "engine"] and len(parts) > 2:
                wrong += [f"{own} imports {parts[2]}"] if step[parts[2]] > step[own] else []
    assert not wrong


def test_faces_do_not_look_inside_a_memory() -> None:
    wrong = []
    for file in module_files():
        if layer(file) in MAY_REACH_ENGINE:
            continue
        for node in ast.walk(parse(file)):
            if isinstance(node, ast.Attribute) and node.attr == "engine":
                wrong.append(f"{file.relative_to(SOURCE)}:{node.lineno}")
    assert not wrong


def test_no_private_module_is_imported_from_another_package() -> None:
    for file in module_files():
        own = ".".join(("alma", *file.relative_to(SOURCE).parts[:-1]))
        for name, _ in imports(file):
            owner, _, private = name.rpartition("._")
            is_module_name = private and not private.startswith("_")
            assert not (is_module_name and owner.startswith("alma") and owner != own), f"{file} imports {name}"


@pytest.mark.system
def test_importing_the_memory_imports_no_engine() -> None:
    """A short script pays for the modules that it uses: those of the engine are imported by the first call."""
    code = "import sys; from alma import ALMA; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    engine = {
        name for name in loaded if name.startswith(("alma.engine.", "alma.reading", "alma.coding", "alma.stores"))
    }
    assert engine == {"alma.engine.calls", "alma.engine.validate"}
    foreign = {name.partition(".")[0] for name in loaded} & {"numpy", "yaml", "pydantic", "sqlite3", "onnxruntime"}
    assert not foreign


def test_modules_of_the_engine_are_attributes_of_it() -> None:
    assert engine_package.history is import_module("alma.engine.history")
    with pytest.raises(AttributeError, match="module 'alma.engine' has no attribute 'hystory'"):
        _ = engine_package.hystory  # type: ignore[attr-defined]
    assert not hasattr(engine_package, "__wrapped__")


def test_late_imports_do_not_grow() -> None:
    late = 0
    for file in module_files():
        functions = ast.walk(parse(file))
        inner = [one for one in functions if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        nodes = {node for one in inner for node in ast.walk(one)}
        late += sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)
    assert late <= MOST_LATE_IMPORTS


def test_the_plugin_uses_hooks_and_what_is_below_them() -> None:
    may = {
        "__version__",
        "hooks",
        "engine",
        "models",
        "ports",
        "coding",
        "reading",
        "rulefiles",
        "types",
        "app",
        "doctor",
        "jsonc",
        "toml",
        # The transport of the server that takes notes.
        "mcp",
        # What git tracks, and which stores were created here.
        "trust_register",
        # Only to open the dashboard.
        "http",
    } | BASE
    for file in sorted((SOURCE.parent / "claude_smart").glob("*.py")):
        for name, _ in imports(file, SOURCE.parent):
            parts = name.removeprefix("alma.claude_smart").split(".")
            assert parts[0] != "alma" or len(parts) < 2 or parts[1] in may, f"{file.name} imports {name}"


@pytest.mark.parametrize("name", sorted(STANDARD_ONLY))
def test_values_need_only_the_standard_library(name: str) -> None:
    for file in module_files():
        if layer(file) == name:
            foreign = {found.split(".")[0] for found, _ in imports(file)} - sys.stdlib_module_names - {"alma"}
            assert not foreign, f"{file.name} imports {foreign}"


def test_only_stores_and_embedders_touch_numpy() -> None:
    users = {layer(file) for file in module_files() if any(n.split(".")[0] == "numpy" for n, _ in imports(file))}
    assert users <= {"stores", "embedders"}


def test_onnxruntime_is_imported_in_one_place() -> None:
    """It reports to a collector unless that is switched off before the import."""
    root = SOURCE.parent.parent
    folders = ("src", "tools", "benchmarks", "examples", "tests")
    files = [file for folder in folders for file in (root / folder).rglob("*.py")]
    importing = [str(file.relative_to(root)) for file in files if _imports_onnxruntime(file)]
    assert importing == ["src/alma/embedders/local.py"]


def _imports_onnxruntime(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "onnxruntime" in text else ():
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "import_module",
            "importorskip",
        ):
            names = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
        if any(name.partition(".")[0] == "onnxruntime" for name in names):
            return True
    return False


def test_nothing_heavy_is_imported_while_loading() -> None:
    heavy = {"numpy", "onnxruntime", "tokenizers", "httpx", "rich", "yaml"}
    # Itself loaded by the first search for a vector.
    late = SOURCE / "stores" / "sqlite" / "cache.py"
    for file in module_files():
        eager = {name.split(".")[0] for name, early in imports(file) if early} & heavy
        is_fine = not eager or layer(file) == "testing" or file in (late, SOURCE / "stores" / "chroma.py")
        assert is_fine, f"{file.relative_to(SOURCE)} loads {eager} at once"
        assert "alma.stores.sqlite.cache" not in {name for name, early in imports(file) if early}
