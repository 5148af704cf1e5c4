"""Entries put into JSON and TOML files of others, and taken out: nothing else changes, not by a byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alma import jsonc
from alma.errors import ConfigError
from alma.mcp.clients import CLIENTS, PROJECT, TOML, install

ENTRY = {"command": "python", "args": ["-m", "alma.mcp"]}
PATH = ("mcpServers", "alma")

REMARKED = """\
{
  // which servers there are
  "mcpServers": {
    "git": { "command": "uvx", "args": ["mcp-server-git"] }, /* // not a remark within */
    "web": {
      "url": "https://example.org/mcp", // two slashes in a string are no remark
    },
  },
  "theme": "dark", // "mcpServers": {}
}
"""

JSONS = [
    "{}",
    "{}\n",
    "{ }",
    '{"a": 1}',
    '{"mcpServers": {}}',
    '{"mcpServers":{"git":{"command":"uvx"}}}',
    '{\n    "mcpServers": {\n        "git": {\n            "command": "uvx"\n        }\n    }\n}\n',
    '{\r\n\t"mcpServers": {\r\n\t\t"git": {"command": "uvx"}\r\n\t}\r\n}\r\n',
    '\ufeff{\n  "a": 1\n}\n',
    "// all mine\n{\n  // nothing yet\n}\n",
    '{\n  "a": 1, // last\n}\n',
    '{\n  "a": 1 // last\n}\n',
    '{"a": "// {", "b": "\\"/*", "c": [1, 2,],}',
    REMARKED,
]


@pytest.mark.parametrize("text", JSONS)
def test_json_put_and_dropped_is_as_before(text: str) -> None:
    before = jsonc.load(text, "it")
    put = jsonc.put(text, PATH, ENTRY)
    held = jsonc.load(put, "it")
    assert held["mcpServers"]["alma"] == ENTRY
    assert {**held, "mcpServers": {**held["mcpServers"], "alma": None}} == {
        **before,
        "mcpServers": {**before.get("mcpServers", {}), "alma": None},
    }
    dropped = jsonc.drop(put, PATH)
    if "mcpServers" not in before:
        dropped = jsonc.drop(dropped, PATH[:1])
    assert dropped == text


@pytest.mark.parametrize("text", JSONS)
def test_every_piece_of_the_text_is_still_there(text: str) -> None:
    """What was put in is in one piece: around it is the old text."""
    put = jsonc.put(text, PATH, ENTRY)
    start = next((at for at, (a, b) in enumerate(zip(text, put, strict=False)) if a != b), len(text))
    assert put.startswith(text[:start])
    assert put.endswith(text[start:])


def test_an_entry_is_replaced_in_its_place() -> None:
    put = jsonc.put(REMARKED, ("mcpServers", "git"), ENTRY)
    assert jsonc.load(put, "it")["mcpServers"]["git"] == ENTRY
    assert put.index('"git"') < put.index('"web"')
    assert "// which servers there are" in put


@pytest.mark.parametrize("name", ["git", "web"])
def test_remarks_outlive_the_entry_beside_them(name: str) -> None:
    dropped = jsonc.drop(REMARKED, ("mcpServers", name))
    assert list(jsonc.load(dropped, "it")["mcpServers"]) == [one for one in ("git", "web") if one != name]
    assert "// which servers there are" in dropped
    assert "/* // not a remark within */" in dropped
    assert '"theme": "dark", // "mcpServers": {}' in dropped


def test_a_remark_before_the_only_entry_stays_and_harms_nothing() -> None:
    text = '{\n  "mcpServers": {\n    // ours\n    "alma": {}\n  }\n}\n'
    assert jsonc.load(jsonc.drop(text, PATH), "it") == {"mcpServers": {}}


def test_of_two_with_one_name_none_is_left() -> None:
    assert jsonc.load(jsonc.drop('{"a": 1, "b": 2, "a": 3}', ("a",)), "it") == {"b": 2}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": }', '{"a": 1} x', '{"a" 1}', "{,}", "null", "{/*}"])
def test_broken_json_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"settings\.json .*nothing was changed"):
        jsonc.load(text, "settings.json")


def test_what_is_no_object_is_not_replaced_by_one() -> None:
    with pytest.raises(ConfigError, match="must be a JSON object"):
        jsonc.put('{"mcpServers": []}', PATH, ENTRY)


KEYS = st.sampled_from(["alma", "mcpServers", "a", "ü", 'q"'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "//", "/*", '"', "}", ",", "ü"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(
    data=st.dictionaries(KEYS, VALUES, max_size=4),
    key=KEYS,
    value=VALUES,
    indent=st.sampled_from([None, 1, 2, 4, "\t"]),
    spaced=st.booleans(),
)
def test_any_member_of_any_object(data: dict[str, Any], key: str, value: Any, indent: Any, spaced: bool) -> None:
    text = json.dumps(data, indent=indent, separators=None if spaced else (",", ":"), ensure_ascii=False)
    assert jsonc.load(text, "it") == data
    put = jsonc.put(text, (key,), value)
    assert json.loads(put) == {**data, key: value}
    dropped = jsonc.drop(put, (key,))
    assert json.loads(dropped) == {name: one for name, one in data.items() if name != key}
    if key not in data:
        assert dropped == text


# -- TOML

TABLE = ("mcp_servers", "alma")
CONFIG = """\
model = "gpt" # mine

[mcp_servers.git]
command = "uvx"
args = [
  "mcp-server-git", # [not.a.table]
]

[mcp_servers.git.env]
TOKEN = '''
[mcp_servers.else]
'''

# about the project
[projects."/home/ana/app"]
trust_level = "trusted"
"""

TOMLS = ["", "a = 1\n", "a = 1", CONFIG, CONFIG.replace("\n", "\r\n"), "[mcp_servers]\n", "\ufeffa = 1\n"]


@pytest.mark.parametrize("text", TOMLS)
def test_toml_put_and_dropped_is_as_before(text: str) -> None:
    put = TOML.put(text, TABLE, ENTRY)
    assert put.startswith(text)
    assert TOML.load(put, "it")["mcp_servers"]["alma"] == ENTRY
    # A line that was not ended has been ended.
    assert TOML.drop(put, TABLE) == (text if not text or text.endswith("\n") else f"{text}\n")


def test_a_table_in_the_middle_goes_and_the_remark_after_it_stays() -> None:
    text = CONFIG.replace("mcp_servers.git", "mcp_servers.alma")
    # The string within holds what looks like a table, so the way it is written decides nothing.
    dropped = TOML.drop(text.replace("[mcp_servers.else]", "else"), TABLE)
    assert TOML.load(dropped, "it") == {"model": "gpt", "projects": {"/home/ana/app": {"trust_level": "trusted"}}}
    assert "# about the project\n[projects." in dropped
    assert dropped.startswith('model = "gpt" # mine\n')


def test_a_table_is_replaced() -> None:
    once = TOML.put(CONFIG, TABLE, {"command": "other", "env": {"A": "1"}})
    assert TOML.load(once, "it")["mcp_servers"]["alma"] == {"command": "other", "env": {"A": "1"}}
    assert TOML.put(once, TABLE, ENTRY) == TOML.put(CONFIG, TABLE, ENTRY)


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { git = { command = "uvx" } }\n',
        '[mcp_servers]\nalma = { command = "x" }\n',
        'mcp_servers.alma.command = "x"\n',
        'note = """\n[mcp_servers.alma]\n"""\n',
    ],
)
def test_what_is_written_otherwise_is_refused_and_not_damaged(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = CLIENTS["codex"].file(PROJECT)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError, match="manually"):
        install(CLIENTS["codex"], PROJECT, ["alma", "mcp"])


def test_tables_below_it_go_with_it() -> None:
    text = "[mcp_servers.alma]\ncommand = 1\n\n[mcp_servers.alma.env]\nA = 1\n[other]\nb = 1\n"
    assert TOML.drop(text, TABLE) == "[other]\nb = 1\n"


def test_broken_toml_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML .*Nothing was changed"):
        TOML.load("a = ", "config.toml")


@pytest.mark.parametrize("value", ['"', "\\", "ü\n\t", "C:\\Users\\ana", "'''", "\x7f"])
def test_any_text_survives(value: str) -> None:
    entry = {"command": value, "args": [value], "on": True, "n": 3, "x": 1.5, "env": {"a b": value}}
    assert TOML.load(TOML.put("", TABLE, entry), "it")["mcp_servers"]["alma"] == entry
