"""Hooks for MkDocs: order the pages, add the notebooks and bring everything the pages use into the site.

`make docs` runs `mkdocs build`, which loads this module (see `mkdocs.yml`). The site loads nothing from other hosts: the
theme has its own scripts and fonts, and code is coloured while the site is built.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments.formatters import HtmlFormatter

ROOT = Path(__file__).parent.parent
INDEX = "README.md"
SECTIONS = {
    "tutorial": "Tutorials",
    "how-to": "How-to guides",
    "notebooks": "Notebooks",
    "explanation": "Explanation",
    "reference": "Reference",
    "project": "Project",
}
PROJECT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
CODE_COLOURS = "css/code.css"
_LINK = re.compile(r"(\]\()([^)\s#]+)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation, and make anchors as GitHub does, so that links work in both places."""
    docs = Path(config.docs_dir)
    pages = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    pages += [f"notebooks/{path.stem}.md" for path in find_notebooks()]
    pages += [f"project/{name}" for name in PROJECT_PAGES]
    config.nav = build_navigation((docs / INDEX).read_text(encoding="utf-8"), pages)
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": slugify_heading}
    return config


def build_navigation(index: str, pages: list[str]) -> list[object]:
    """Return MkDocs' `nav`: one section per folder, its pages in the order in which `index` links to them."""
    order = {target: place for place, (_, target) in reversed(list(enumerate(_LINK.findall(index))))}
    ranked = sorted(pages, key=lambda page: (order.get(page, len(order)), page))
    sections: dict[str, list[str]] = {}
    for page in ranked:
        sections.setdefault(page.partition("/")[0], []).append(page)
    sections.pop(INDEX)
    names = [name for name in SECTIONS if name in sections] + sorted(set(sections) - set(SECTIONS))
    return [{"Home": INDEX}, *({SECTIONS.get(name, name.capitalize()): sections[name]} for name in names)]


def slugify_heading(heading: str, separator: str) -> str:
    """Return the anchor that GitHub gives to `heading`."""
    return re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks and the project's pages, the examples as files, and the style sheet for code."""
    for name in PROJECT_PAGES:
        files.append(File.generated(config, f"project/{name}", content=(ROOT / name).read_text(encoding="utf-8")))
    for notebook in find_notebooks():
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=render_notebook(notebook)))
    for example in sorted((ROOT / "examples").rglob("*.*")):
        if example.suffix in {".py", ".ipynb"}:
            name = example.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(example)))
    colours = HtmlFormatter(style="default").get_style_defs(".codehilite")
    files.append(File.generated(config, CODE_COLOURS, content=colours))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links that leave `docs/` at the copies of those files in the site."""
    folder = posixpath.dirname(page.file.src_uri)
    source = ".." if folder == "project" else folder

    def point_into_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(source, link[2]))
        if not target.startswith("../"):
            return link[0]
        inside = target.removeprefix("../").removeprefix("docs/")
        if inside in PROJECT_PAGES:
            inside = f"project/{inside}"
        if inside.startswith("examples/notebooks/"):
            inside = f"notebooks/{Path(inside).stem}.md"
        return link[1] + (posixpath.relpath(inside, folder) if files.get_file_from_path(inside) else link[2])

    return _LINK.sub(point_into_site, markdown)


def find_notebooks() -> list[Path]:
    """Return the notebooks among the examples, by name."""
    return sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def render_notebook(notebook: Path) -> str:
    """Return the notebook as Markdown: its text, its code, and the output stored in it."""
    parts = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            parts.append("```text\n" + "".join(output["text"]).rstrip() + "\n```")
    parts.append(f"[Download this notebook](../examples/notebooks/{notebook.name})")
    return "\n\n".join(parts) + "\n"
