"""Write `src/alma/aio.pyi`: the types of `AsyncALMA`, whose methods are derived from those of `ALMA`.

python -m tools.generate_stub
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "alma"
_HEAD = """\
class AsyncALMA:
    alma: ALMA
    def __init__(self, alma: ALMA) -> None: ...
    @property
    def project_id(self) -> str: ...
    @property
    def model(self) -> Model | None: ...
    async def __aenter__(self) -> AsyncALMA: ...
    async def __aexit__(self, *error: object) -> None: ...
"""


class _Plain(ast.NodeTransformer):
    """Take `Annotated[X, ...]` for X."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        is_annotated = isinstance(node.value, ast.Name) and node.value.id == "Annotated"
        return node.slice.elts[0] if is_annotated and isinstance(node.slice, ast.Tuple) else node


def write_stub() -> str:
    """Return the stub: every public method of `ALMA`, awaited; `learns`, which decorates, as it is."""
    module = _Plain().visit(ast.parse((SOURCE / "memory.py").read_text(encoding="utf-8")))
    [memory] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == "ALMA"]
    stub = ast.parse(_HEAD)
    [face] = [node for node in stub.body if isinstance(node, ast.ClassDef)]
    for node in memory.body:
        decorators = [ast.unparse(one) for one in getattr(node, "decorator_list", ())]
        if isinstance(node, ast.FunctionDef):
            is_value = any("property" in one for one in decorators)
            is_overloaded = any(getattr(one, "name", "") == node.name and one is not node for one in memory.body)
            if node.name.startswith("_") or node.name == "connect" or is_value:
                continue
            if is_overloaded and "overload" not in decorators:
                continue
            kind = ast.FunctionDef if node.name == "learns" else ast.AsyncFunctionDef
            kept = [one for one in node.decorator_list if ast.unparse(one) in ("overload", "classmethod")]
            returns = ast.Name("AsyncALMA") if "classmethod" in decorators else node.returns
            body: list[ast.stmt] = [ast.Expr(ast.Constant(...))]
            face.body.append(kind(name=node.name, args=node.args, body=body, decorator_list=kept, returns=returns))
        elif isinstance(node, ast.Assign):
            face.body.append(node)
    used = {node.id for node in ast.walk(stub) if isinstance(node, ast.Name)}
    imports = []
    defined = []
    for node in module.body:
        for one in node.body if isinstance(node, ast.If) else [node]:
            if isinstance(one, ast.ImportFrom | ast.Import):
                one.names = [alias for alias in one.names if (alias.asname or alias.name) in used]
                if one.names:
                    imports.append(one)
            elif isinstance(one, ast.Assign):
                defined += [target.id for target in one.targets if isinstance(target, ast.Name) and target.id in used]
    head = ["# Written by tools/generate_stub.py", *map(ast.unparse, imports)]
    head.append(f"from .memory import {', '.join(['ALMA', *sorted(defined)])}")
    text = "\n".join([*head, "", ast.unparse(ast.fix_missing_locations(stub))])
    for command in (["check", "--select", "I", "--fix", "--exit-zero"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", str(SOURCE / "aio.pyi"), "-"]
        text = subprocess.run(ruff, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    (SOURCE / "aio.pyi").write_text(write_stub(), encoding="utf-8")
