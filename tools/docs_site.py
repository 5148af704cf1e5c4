"""Hooks for MkDocs: order the pages, add the notebooks and bring everything the pages use into the site.

`make docs` runs `mkdocs build`, which loads this module (see `mkdocs.yml`). The site loads nothing from other hosts:
the theme has its own scripts and fonts, and code is coloured while the site is built.
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
CODE_COLOURS = "css/code.css"
DISK_SEARCH = "search_from_disk.js"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the navigation, and make anchors as GitHub does, so that links work in both places."""
    docs = Path(config.docs_dir)
    pages = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    pages += [f"notebooks/{path.stem}.md" for path in find_notebooks()]
    pages += [place_in_site(path.name) for path in find_project_pages()]
    config.nav = build_navigation((docs / INDEX).read_text(encoding="utf-8"), pages)
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": slugify_heading}
    return config


def build_navigation(index: str, pages: list[str]) -> list[object]:
    """Return MkDocs' `nav`: one section per folder, its pages in the order in which `index` links to them."""
    order = {target: place for place, (_, target, _) in reversed(list(enumerate(_LINK.findall(index))))}
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
    """Add the notebooks and the project's own pages, the examples as files, and the style sheet for code."""
    for notebook in find_notebooks():
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=render_notebook(notebook)))
    examples = [path for path in sorted((ROOT / "examples").rglob("*.*")) if path.suffix in {".py", ".ipynb"}]
    for path in [*find_project_pages(), *examples]:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, place_in_site(name), abs_src_path=str(path)))
    colours = HtmlFormatter(style="default").get_style_defs(".codehilite")
    files.append(File.generated(config, CODE_COLOURS, content=colours))
    files.append(File.generated(config, f"js/{DISK_SEARCH}", abs_src_path=str(Path(__file__).parent / DISK_SEARCH)))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Write the search index as a script, too, for pages that are opened from the disk."""
    search = Path(config.site_dir) / "search"
    index = (search / "search_index.json").read_text(encoding="utf-8")
    (search / "search_index.js").write_text(f"var search_index = {index};\n", encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the site's copies of files; a link to a file that the site does not have becomes plain text."""
    here = page.file.src_uri
    is_project_page = here.startswith("project/")
    source = here.removeprefix("project/") if is_project_page else f"docs/{here}"
    if here.startswith("notebooks/"):
        return markdown

    def point_into_site(link: re.Match[str]) -> str:
        text, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if "://" in target or not (ROOT / path).is_file():
            return link[0]
        inside = f"notebooks/{Path(path).stem}.md" if path.endswith(".ipynb") else place_in_site(path)
        if files.get_file_from_path(inside) is None:
            return str(text)
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(here) or '.')}{anchor or ''})"

    return _LINK.sub(point_into_site, markdown)


def place_in_site(path: str) -> str:
    """Return where the site has a file of the repository."""
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path == INDEX:
        return INDEX
    if path.startswith("examples/"):
        return path
    return f"project/{path}"


def find_project_pages() -> list[Path]:
    """Return the pages about the project itself, such as CONTRIBUTING."""
    return [path for path in sorted(ROOT.glob("*.md")) if path.name != INDEX]


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
