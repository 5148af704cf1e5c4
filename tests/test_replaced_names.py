"""What a test replaces in a module must not have been imported by value elsewhere: that copy would stay as it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPLACING = {"setattr", "patch", "object"}

Name = tuple[str, str]
"""A module and a name in it."""


def list_modules() -> dict[str, Path]:
    modules = {}
    for path in (ROOT / "src").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


def find_module(node: ast.ImportFrom, importer: str, *, is_package: bool) -> str:
    """Return the full name of the module that an import names."""
    if not node.level:
        return node.module or ""
    parts = importer.split(".")
    package = parts[: len(parts) - node.level + is_package]
    return ".".join([*package, *filter(None, [node.module])])


def list_copies(modules: dict[str, Path]) -> dict[Name, set[str]]:
    """Return the modules that import a name by value when they are loaded. A late import reads the current value."""
    copies: dict[Name, set[str]] = defaultdict(set)
    for importer, path in modules.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                module = find_module(node, importer, is_package=path.name == "__init__.py")
                for alias in node.names:
                    copies[module, alias.name].add(importer)
    return copies


def read_target(call: ast.Call, imported: dict[str, str]) -> Name | None:
    """Return what a call replaces: `setattr("module.name", …)` or `setattr(module, "name", …)`."""
    values = [argument.value if isinstance(argument, ast.Constant) else None for argument in call.args[:2]]
    if values and isinstance(values[0], str):
        module, _, name = values[0].rpartition(".")
        return module, name
    if len(values) > 1 and isinstance(values[1], str):
        written = ast.unparse(call.args[0])
        return imported.get(written, written), values[1]
    return None


def list_replaced(tree: ast.AST, imported: dict[str, str]) -> set[Name]:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    replacing = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in REPLACING]
    return {target for call in replacing if (target := read_target(call, imported))}


def list_functions(path: Path) -> Iterator[tuple[ast.FunctionDef, dict[str, str]]]:
    """Yield the functions of a test file, with the full names of what the file imports."""
    tree = ast.parse(path.read_text())
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield node, imported


def test_what_a_test_replaces_was_imported_by_value_nowhere_else() -> None:
    modules = list_modules()
    copies = list_copies(modules)
    failures = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for function, imported in list_functions(path):
            replaced = list_replaced(function, imported)
            for module, name in sorted(replaced):
                others = {other for other in copies[module, name] if (other, name) not in replaced}
                if module in modules and others:
                    failures.append(f"{path.name} {function.name}: {module}.{name} is also in {sorted(others)}")
    assert failures == [], "read it as an attribute of its module there, or replace it there too"


def test_an_import_by_value_is_found() -> None:
    source = "monkeypatch.setattr('alma.app.read_config', None)\npatch.setattr(engine_team, 'find_screen', None)"
    replaced = list_replaced(ast.parse(source), {"engine_team": "alma.engine.team"})
    assert replaced == {("alma.app", "read_config"), ("alma.engine.team", "find_screen")}
    assert {"alma.doctor", "alma.http.app"} <= list_copies(list_modules())["alma.app", "read_config"]
