"""Write the generated parts of the documentation: `python tools/generate_docs.py`.

A page has `<!-- generated: NAME -->` … `<!-- end -->`; the text in between is generated from the code.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import sys
import tomllib
import types
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Union, get_args, get_origin, get_type_hints

from alma import ALMA, errors
from alma.cli.derive import build_parser
from alma.config import Config
from alma.engine.context import Settings, UpkeepSettings, Weights
from alma.operations import Operation, Parameter
from alma.types import MemoryScope, Team, kinds
from alma.types.asking import BudgetLimits, ModelSettings, Prices
from alma.types.events import WebhookSettings
from alma.types.storage import CacheSettings, EncryptionSettings, RetrySettings

ROOT = Path(__file__).parent.parent
PAGES = (
    "docs/explanation/differences.md",
    "docs/how-to/coding-agents.md",
    "docs/reference/claude-smart.md",
    "docs/reference/cli.md",
    "docs/reference/config.md",
    "docs/reference/errors.md",
    "docs/reference/operations.md",
    "docs/reference/python.md",
    "docs/reference/stores.md",
)
_PART = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def commands() -> str:
    """Return the help of every command, as it is printed."""
    return _commands(build_parser(), "## alma")


def smart_commands() -> str:
    from claude_smart.cli import build_parser

    return _commands(build_parser(), "### claude-smart")


def _commands(parser: argparse.ArgumentParser, heading: str) -> str:
    out = [f"```text\n{_help(parser)}\n```"]
    for name, sub in _subparsers(parser):
        out.append(f"{heading} {name}\n\n```text\n{_help(sub)}\n```")
    return "\n\n".join(out) + "\n"


def smart_settings() -> str:
    """Return every setting of the plugin with its default."""
    from alma.hooks.paths import DEFAULTS

    rows = [f"| `{name}` | `{default}` |" for name, default in DEFAULTS.items()]
    return "\n".join(["| setting | default |", "|---|---|", *rows]) + "\n"


def hosts() -> str:
    """Return every coding agent, what is written for it, and when it is shown rules."""
    from alma.hooks.hosts import HOSTS, NOT_RUN, can_show
    from claude_smart.adapters import build_files

    moments = {"SessionStart": "start of a session", "UserPromptSubmit": "prompts", "PreToolUse": "tool calls"}
    rows = ["| agent | `--host` | files | rules are shown at | tested in the agent |", "|---|---|---|---|---|"]
    for name, title in HOSTS.items():
        files = [f"`~/{path}`" for path in build_files(name, "", "")]
        shown = [text for event, text in moments.items() if can_show(name, event)]
        if name == "claude":
            files = ["`~/.claude/settings.json`"]
        elif name == "aider":
            files, shown = ["`.aider.conf.yml`", "`.aider.claude-smart.md`"], ["start of a session"]
        tested = "no, written from its documentation" if name in NOT_RUN else "yes"
        rows.append(f"| {title} | `{name}` | {', '.join(files)} | {', '.join(shown)} | {tested} |")
    return "\n".join(rows) + "\n"


def readers() -> str:
    """Return every coding agent that can read corrections or cannot, with what was seen."""
    from alma.hooks.hosts import HOSTS
    from alma.models.readers import PROGRAMS, UNUSABLE

    rows = ["| agent | `reader` | called as | usable |", "|---|---|---|---|"]
    rows.append("| Claude Code | `claude` | `claude -p` | yes |")
    for name, program in PROGRAMS.items():
        command = program.binary
        if not program.arguments[0].startswith("-"):
            command += f" {program.arguments[0]}"
        rows.append(f"| {program.title} | `{name}` | `{command}` | yes |")
    rows += [f"| {HOSTS[name]} | | | no: {reason} |" for name, reason in UNUSABLE.items()]
    return "\n".join(rows) + "\n"


def _subparsers(parser: argparse.ArgumentParser, before: str = "") -> list[tuple[str, argparse.ArgumentParser]]:
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                found.append((f"{before}{name}", sub))
                found += _subparsers(sub, f"{before}{name} ")
    return found


def _help(parser: argparse.ArgumentParser) -> str:
    os.environ["COLUMNS"] = "100"  # argparse wraps to the terminal's width
    return re.sub(r"[ \t]+$", "", parser.format_help(), flags=re.MULTILINE).strip()


def keys() -> str:
    """Return every key of the configuration with its default."""
    rows = [
        *_fields("", Config, skip=("agents", "teams", "model", "settings", "cache", "retry", "encryption", "webhooks")),
        *_fields("cache.", CacheSettings),
        *_fields("retry.", RetrySettings),
        *_fields("encryption.", EncryptionSettings),
        *_fields("model.", ModelSettings, skip=("prices", "budget")),
        *_fields("model.prices.", Prices),
        *_fields("model.budget.", BudgetLimits),
        *_fields("webhooks[].", WebhookSettings, skip=("events",)),
        ("webhooks[].events", "all but `judged` and `retrieved`"),
        *_fields("agents.NAME.", MemoryScope, skip=("agent_name",)),
        *_fields("teams.NAME.", Team, skip=("name",)),
    ]
    learning = ("min_occurrences_for_heuristic", "min_failures_for_anti_pattern", "share_between_users")
    for name, default in _fields("", Settings, skip=("weights", "upkeep")):
        rows.append((f"learning.{name}" if name in learning else f"retrieval.{name}", default))
    rows += _fields("retrieval.weights.", Weights)
    rows += _fields("upkeep.", UpkeepSettings)
    return (
        "\n".join(["| key | default |", "|---|---|", *(f"| `{name}` | {default} |" for name, default in rows)]) + "\n"
    )


def _fields(before: str, holder: type, skip: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    return [(f"{before}{one.name}", _default(one)) for one in fields(holder) if one.name not in skip]


def _default(one: object) -> str:
    default = getattr(one, "default", MISSING)
    if default is MISSING:
        return "" if getattr(one, "default_factory", MISSING) is MISSING else "none"
    if default in (None, "", ()):
        return "none"
    return f"`{default}`" if not isinstance(default, bool) else f"`{str(default).lower()}`"


def operations() -> str:
    """Return every operation with its parameters."""
    from alma.http.tokens import NEEDED
    from alma.operations import operations as listed

    out, group = [], ""
    for one in listed().values():
        if one.group != group:
            group = one.group
            out.append(f"## {group.capitalize()}")
        mark = f"{one.effect}{', idempotent' if one.idempotent and one.effect != 'reads' else ''}"
        mark += "; not over HTTP" if one.on_files else f"; token scope {NEEDED[one.effect]}"
        mark += "" if one.for_models else "; not over MCP"
        rows = [_parameter(parameter) for parameter in one.parameters]
        table = ["| parameter | | |", "|---|---|---|", *rows] if rows else []
        out.append("\n".join([f"### {one.name}\n\n*{mark}.* {one.description}\n", *table]).rstrip())
    return "\n\n".join(out) + "\n"


def _parameter(one: Parameter) -> str:
    default = "needed" if one.needed else f"`{one.default!s}`" if one.default not in (None, "") else ""
    choices = f": {', '.join(f'`{name}`' for name in one.about.choices)}" if one.about.choices else ""
    return f"| `{one.name}` | {default} | {one.about.text}{choices} |".replace("  ", " ")


def tree() -> str:
    return f"```text\n{inspect.cleandoc(errors.__doc__ or '')}\n```\n"


def methods() -> str:
    """Return every public method of `ALMA` with its signature and description."""
    out = []
    for name, member in inspect.getmembers(ALMA, callable):
        if name.startswith("_"):
            continue
        out.append(f"### {name}\n\n```text\n{name}{_signature(member)}\n```\n\n{_explain(member)}".strip())
    return "\n\n".join(out) + "\n"


def _explain(member: object) -> str:
    one = getattr(member, "operation", None)
    if not isinstance(one, Operation):
        return inspect.getdoc(member) or ""
    arguments = [f"- `{parameter.name}`: {parameter.about.text}" for parameter in one.own_parameters.values()]
    return "\n\n".join(filter(None, [one.description, "\n".join(arguments), inspect.cleandoc(one.notes)]))


def _signature(member: Callable[..., object]) -> str:
    signature = inspect.signature(member)
    one = getattr(member, "operation", None)
    hints = get_type_hints(one.function) if isinstance(one, Operation) else {}
    parts: list[str] = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        if one.name != "self":
            stars, kind = "**" * (one.kind is one.VAR_KEYWORD), _type(hints.get(one.name, one.annotation))
            parts.append(f"{stars}{one.name}: {kind}{_value(one)}")
    returned = _type(hints.get("return", signature.return_annotation))
    flat = f"({', '.join(parts)}) -> {returned}"
    if len(flat) <= 90:
        return flat
    lines = "".join(f"    {part},\n" for part in parts)
    return f"(\n{lines}) -> {returned}"


def _type(annotation: object) -> str:
    """Return an annotation as source code, without module names."""
    if isinstance(annotation, str):
        return annotation
    options = [one for one in get_args(annotation) if one is not type(None)]
    if get_origin(annotation) in (Union, types.UnionType):
        null = [] if len(options) == len(get_args(annotation)) else ["None"]
        return " | ".join([*map(_type, options), *null])
    return re.sub(r"\b(?:[a-z_]+\.)+", "", inspect.formatannotation(annotation))


def _value(one: inspect.Parameter) -> str:
    if one.default is one.empty:
        return ""
    return f" = {one.default.__name__ if inspect.isfunction(one.default) else repr(one.default)}"


def values() -> str:
    """Return the fields of every memory type."""
    own = ("Heuristic", "Outcome", "AntiPattern", "DomainKnowledge", "UserPreference", "Rule", "Episode", "Turn")
    shared = [one.name for one in fields(kinds.Memory)]
    rows = [f"| every memory | {', '.join(f'`{name}`' for name in shared)} |"]
    for name in own:
        holder = getattr(kinds, name)
        special = [f"`{one.name}`" for one in fields(holder) if one.name not in shared]
        rows.append(f"| `{name}` | {', '.join(special)} |")
    return "\n".join(["| | fields |", "|---|---|", *rows]) + "\n"


def stores() -> str:
    """Return what each store can do: without a connection to a service; and its limits."""
    import tempfile
    from importlib import import_module
    from importlib.util import find_spec
    from unittest.mock import patch

    from alma import stores
    from alma.testing import capabilities

    can: dict[str, dict[str, bool]] = {}
    limits: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch)
        opened = {
            **{
                f"`{name}`": stores.create(name, path=path / name, options={}) for name in ("memory", *stores.IN_A_FILE)
            },
            "`qdrant`, folder": stores.create("qdrant", path=path, options={"path": str(path / "qdrant")}),
            "`qdrant`, server": stores.create("qdrant", path=path, options={"url": "http://127.0.0.1:6333"}),
            "`chroma`, folder": stores.create("chroma", path=path, options={"path": str(path / "chroma")}),
        }
        rows = stores.create("sqlite", path=path / "rows", options={})
        paired = stores.pair(rows, "qdrant", {"path": str(path / "vectors")})
        for label, store in {**opened, "`sqlite` + `vectors: qdrant`, folder": paired}.items():
            can[label], limits[label] = capabilities(store), getattr(store, "limits", {})
            store.close()
    declared = {"`chroma`, server": "chroma"} | {f"`{name}`": name for name in ("postgres", "pinecone", "azure")}
    for label, name in declared.items():
        if find_spec(f"alma.stores.{name}") is not None:
            module = import_module(f"alma.stores.{name}")
            kind = stores.STORES.load(name)
            for title, documents in inspect.getmembers(module, inspect.isclass):
                if title.endswith("Documents") and documents.__module__ == module.__name__:
                    # The limits of such a store depend on its database, which is not connected here.
                    with patch.object(
                        documents, "__init__", lambda self, *args, **options: setattr(self, "is_locked", False)
                    ):
                        kind = kind()
            can[label], limits[label] = capabilities(kind), getattr(kind, "limits", {})
    columns = list(next(iter(can.values())))
    lines = ["| store | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    lines += [
        f"| {label} | " + " | ".join("yes" if row[one] else "–" for one in columns) + " |" for label, row in can.items()
    ]
    lines += [
        "",
        "What a missing capability means:",
        "",
        "| missing | stores | what happens, and what to use |",
        "|---|---|---|",
    ]
    missing: dict[tuple[str, str], list[str]] = {}
    for label, own in limits.items():
        for limit in own.items():
            missing.setdefault(limit, []).append(label)
    lines += [f"| {name} | {'; '.join(labels)} | {text} |" for (name, text), labels in sorted(missing.items())]
    return "\n".join(lines) + "\n"


PROMISES = ROOT / "tests" / "seed_examples" / "promises.toml"


def promises() -> str:
    """Return what the original descriptions promise: what differs and why, and which test shows the rest."""
    sections = tomllib.loads(PROMISES.read_text(encoding="utf-8"))["section"]
    counts = Counter(row[0] for section in sections for row in section["rows"])
    lines = [f"{counts['exact']} promises hold, {counts['differs']} differ on purpose, {counts['absent']} are absent."]
    titles = (
        ("differs", "What differs", "reason"),
        ("absent", "What is absent", "reason"),
        ("exact", "What holds", "test"),
    )
    for kind, title, label in titles:
        lines += ["", f"## {title}"]
        for seed in dict.fromkeys(section["seed"] for section in sections):
            own = [section for section in sections if section["seed"] == seed]
            rows = [(section["name"], *row[1:]) for section in own for row in section["rows"] if row[0] == kind]
            if rows:
                lines += ["", f"### {seed}: {title.lower()}", "", f"| part | promise | {label} |", "|---|---|---|"]
                lines += [_promise_row(*row, is_test=kind == "exact") for row in rows]
    return "\n".join(lines) + "\n"


def _promise_row(part: str, promise: str, proof: str, *, is_test: bool) -> str:
    shown = f"`{proof.removeprefix('tests/')}`" if is_test else proof
    return f"| {part} | {promise.replace('|', chr(92) + '|')} | {shown} |"


PARTS: dict[str, Callable[[], str]] = {
    "promises": promises,
    "hosts": hosts,
    "readers": readers,
    "commands": commands,
    "smart_commands": smart_commands,
    "smart_settings": smart_settings,
    "keys": keys,
    "errors": tree,
    "operations": operations,
    "methods": methods,
    "values": values,
    "stores": stores,
}


def rendered(page: str, held: str) -> str:
    return _PART.sub(lambda found: f"{found[1]}{PARTS[found[2]]()}{found[4]}", held)


def main() -> int:
    for page in PAGES:
        file = ROOT / page
        held = file.read_text(encoding="utf-8")
        file.write_text(rendered(page, held), encoding="utf-8")
        print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
