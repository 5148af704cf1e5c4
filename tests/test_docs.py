"""Documents that cannot lie: examples run, links resolve, generated parts are up to date.

`ALMA_UPDATE_DOCS=1 pytest tests/test_docs.py -k output` writes the output of examples into the pages that show it.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from tests.forked import Ended, Forks, find_command, share_forks
from tools.generate_docs import PAGES, rendered

from alma.config import load
from alma.http.tokens import NEEDED
from alma.operations import operations

pytestmark = pytest.mark.system

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    file for folder in ("docs", ".github", "plugin") for file in (ROOT / folder).rglob("*.md")
) + sorted(ROOT.glob("*.md"))  # fmt: skip
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<kind>\w*)\n(?P<text>.*?)```", re.DOTALL)
OUTPUT = re.compile(r"(?<=<!-- output: )(?P<script>\S+)(?P<open> -->\n```text\n)(?P<text>.*?)(?=```)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)

named = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))


@pytest.fixture
def forks() -> Forks:
    return share_forks()


def blocks(document: Path, kind: str) -> list[re.Match[str]]:
    return [found for found in BLOCK.finditer(document.read_text(encoding="utf-8")) if found["kind"] == kind]


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < 120
    assert not [line for line in lines if len(line) > 115]


@named
def test_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(CODE.sub("", document.read_text(encoding="utf-8"))):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            file = document.parent / path if path else document
            assert file.exists(), f"{document.name} points at {target}"
            assert not anchor or anchor in _anchors(file), f"{document.name} points at {target}"


def _anchors(file: Path) -> list[str]:
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings]


@named
def test_python_examples_run(document: Path, tmp_path: Path, forks: Forks) -> None:
    examples = [block for block in blocks(document, "python") if not block["file"]]
    if not examples:
        return
    for found in blocks(document, "yaml"):
        if found["file"]:
            (tmp_path / found["file"]).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / found["file"]).write_text(found["text"])
    code = "\n".join(found["text"] for found in examples)
    ended = forks.run(code, tmp_path)
    assert ended.code == 0, ended.err[-3000:]


def test_the_architecture_page_names_every_package() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    parts = {one.stem for one in (ROOT / "src/alma").iterdir() if one.suffix == ".py" or (one / "__init__.py").exists()}
    missing = {one for one in parts if f"`{one}`" not in page and not one.startswith("__")}
    assert not missing


@named
def test_yaml_examples_load(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for found in blocks(document, "yaml"):
        for name in re.findall(r"\$\{(\w+)\}", found["text"]):
            monkeypatch.setenv(name, "test")
        file = tmp_path / "config.yaml"
        file.write_text(found["text"])
        load(file)


@named
def test_command_examples_are_commands(document: Path, tmp_path: Path) -> None:
    """Each `alma …` line of a shell example is understood by the parser."""
    import shlex

    from claude_smart.cli import build_parser as smart_parser

    for found in blocks(document, "bash"):
        for line in found["text"].splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["claude-smart"]:
                smart_parser().parse_args(words[1:])
            if words[:1] == ["alma"]:
                alma_parser().parse_args(words[1:])


@cache
def alma_parser() -> ArgumentParser:
    from alma.cli.derive import build_parser

    return build_parser()


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    held = (ROOT / page).read_text(encoding="utf-8")
    # How argparse pads and wraps differs from one Python to the next.
    assert rendered(page, held).split() == held.split(), (
        f"run `python tools/generate_docs.py` to bring {page} up to date"
    )


def test_the_operations_page_shows_the_token_scope_of_each_operation() -> None:
    page = (ROOT / "docs" / "reference" / "operations.md").read_text()
    for name, one in operations().items():
        mark = page.partition(f"### {name}\n\n*")[2].partition(".*")[0]
        access = "; not over HTTP" if one.on_files else f"; token scope {NEEDED[one.effect]}"
        assert mark.endswith(access if one.for_models else f"{access}; not over MCP"), name


def test_the_library_tutorial_shows_what_is_printed(tmp_path: Path, forks: Forks) -> None:
    document = ROOT / "docs" / "tutorial" / "first-memory.md"
    code = "\n".join(found["text"] for found in blocks(document, "python"))
    ended = forks.run(code, tmp_path)
    assert ended.code == 0, ended.err[-3000:]
    shown = [found["text"] for found in blocks(document, "text")]
    assert len(shown) == 2
    for text in shown:
        assert DATE.sub("DATE", text.strip()) in DATE.sub("DATE", ended.out)


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if OUTPUT.search(one.read_text(encoding="utf-8"))])
def test_output_of_examples_is_shown_as_printed(document: Path, tmp_path: Path, forks: Forks) -> None:
    def run_example(block: re.Match[str]) -> str:
        ended = run_example_file(forks, ROOT / block["script"], tmp_path)
        assert ended.code == 0, ended.err[-3000:]
        return f"{block['script']}{block['open']}{ended.out}"

    text = document.read_text(encoding="utf-8")
    current = OUTPUT.sub(run_example, text)
    if os.environ.get("ALMA_UPDATE_DOCS"):
        document.write_text(current, encoding="utf-8")
    else:
        assert DATE.sub("", current) == DATE.sub("", text), (
            f"run `ALMA_UPDATE_DOCS=1 pytest tests/test_docs.py -k output` to update {document.name}"
        )


def test_the_server_tutorial_shows_what_is_printed(tmp_path: Path) -> None:
    document = ROOT / "docs" / "tutorial" / "server.md"
    port = find_free_port()
    commands = [str(Path(file).parent) for file in (find_command()[0], sys.executable)]
    env = {**os.environ, "PATH": os.pathsep.join([*commands, os.environ["PATH"]])}
    env |= {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "home" / ".config")}
    folder = tmp_path / "alma-server"
    folder.mkdir()
    servers = []
    try:
        for block in BLOCK.finditer(document.read_text(encoding="utf-8").replace("8766", str(port))):
            if block["file"]:
                (folder / block["file"]).write_text(block["text"], encoding="utf-8")
            for command, expected in list_commands(block["text"]) if block["kind"] == "console" else ():
                if command == "alma serve":
                    servers.append(start_server(f"exec {command} --port {port}", folder, env))
                    output = servers[-1].stdout
                    assert output is not None
                    printed = ""
                    while "://" not in printed and (line := output.readline()):
                        printed += line
                else:
                    done = subprocess.run(
                        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=120
                    )
                    assert done.returncode == 0, f"{command}: {done.stderr[-2000:]}"
                    printed = done.stdout + done.stderr
                assert matches(printed, expected), f"{command} printed:\n{printed}"
    finally:
        for server in servers:
            server.terminate()
            server.communicate(timeout=30)
    assert servers, "the tutorial starts no server"


def test_the_example_of_a_remote_store_runs(tmp_path: Path, forks: Forks) -> None:
    [example] = blocks(ROOT / "docs/how-to/serve.md", "python")
    port = find_free_port()
    (tmp_path / ".alma").mkdir()
    (tmp_path / ".alma/config.yaml").write_text("alma: {project_id: p, embedding_provider: none}\n")
    command = f"exec {' '.join(find_command('alma-http'))} --config .alma/config.yaml --port {port}"
    server = start_server(command, tmp_path, {**os.environ})
    try:
        output = server.stdout
        assert output is not None
        while (line := output.readline()) and "://" not in line:
            pass
        code = example["text"].replace("8766", str(port))
        ended = forks.run(code, tmp_path)
        assert ended.code == 0, ended.err[-3000:]
    finally:
        server.terminate()
        server.communicate(timeout=30)


def find_free_port() -> int:
    """Return a port that the system gives to nobody who does not name it, and that is free."""
    first = 20_000 + os.getpid() % 10_000
    for port in range(first, first + 1000):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


def start_server(command: str, folder: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def list_commands(block: str) -> list[tuple[str, str]]:
    """Return each command of a console block, joined where it continues on the next line, and its output."""
    parts = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]
    return [(command, printed) for command, _, printed in (part.partition("\n") for part in parts)]


def matches(printed: str, expected: str) -> bool:
    """Compare output with a page: `…` stands for any text within a line, and alone for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", "[^\n]*?") + r"\s*\n"
        for line in expected.strip().splitlines()
    )
    return re.fullmatch(pattern + r"\s*", printed.strip() + "\n") is not None


def test_a_difference_in_output_is_noticed() -> None:
    assert matches("took 3 ms\nall is well", "took … ms\nall is well")
    assert not matches("took 3 ms\nall is lost", "took … ms\nall is well")


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda example: example.stem)
def test_examples_run(example: Path, tmp_path: Path, forks: Forks) -> None:
    ended = run_example_file(forks, example, tmp_path)
    assert ended.code == 0, ended.err[-3000:]


def run_example_file(forks: Forks, file: Path, folder: Path) -> Ended:
    return forks.run(file.read_text(encoding="utf-8"), folder, path=file.parent)


def test_figures_of_language_readers_stand_beside_held_out_text_and_a_baseline() -> None:
    page = (ROOT / "docs/explanation/benchmarks.md").read_text(encoding="utf-8")
    section = page.partition("### Readers of language")[2].partition("\n## ")[0]
    for figure in (".58", ".81", ".76", ".91", ".875"):
        assert figure in section
    for document in DOCUMENTS:
        assert not re.search(r"F1 0?\.75\b|precision 0?\.92\b", document.read_text(encoding="utf-8")), document
