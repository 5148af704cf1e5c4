"""What disks really hold, and what somebody may put there on purpose: named, bounded, and nothing else lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks._chat_formats import Said, Talk, later

from alma import ALMA
from alma.errors import ValidationError
from alma.ingestion import ingest, ingest_conversations, ingest_file, plan, sources
from alma.ingestion.streams import LIMIT
from alma.stores.memory import MemoryStore
from benchmarks import _chat_formats as formats

pytestmark = pytest.mark.system

Read = Callable[..., Any]
TALK = Talk("t1", "Tabs", [Said("user", "I prefer tabs over spaces.", later(0)), Said("assistant", "Noted.", later(1))])


def reasons(result: Any) -> dict[str, str]:
    return {Path(one.path).name: one.reason for one in result.skipped}


@pytest.fixture
def held() -> ALMA:
    return ALMA(MemoryStore(), None, project_id="p")


# -- archives


def test_zip_bombs_are_refused(tmp_path: Path, held: ALMA) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("conversations.json", b"[" + b" " * 64_000_000 + b"]")
    with zipfile.ZipFile(tmp_path / "partly.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("bomb.json", b" " * 8_000_000)
        out.writestr("noise.bin", os.urandom(200_000), compress_type=zipfile.ZIP_STORED)
        out.writestr("conversations.json", json.dumps([formats.chatgpt(TALK)]))
        out.write(tmp_path / "bomb.zip", "inner.txt")
    result = ingest(tmp_path, "dev", alma=held)
    assert result.counts["conversations"] == 1
    told = reasons(result)
    assert "too large to unpack safely" in told["bomb.zip"]
    assert "too large to unpack safely" in told["bomb.json"]
    assert told["inner.txt"] == "an archive in an archive; unpack it first"


def test_a_member_that_lies_about_its_size_is_cut(tmp_path: Path, held: ALMA) -> None:
    file = tmp_path / "lie.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("notes.txt", "word " * 50_000)
    real, claimed = (250_000).to_bytes(4, "little"), (100).to_bytes(4, "little")
    file.write_bytes(file.read_bytes().replace(real, claimed))
    result = ingest(file, "dev", alma=held)
    assert result.skipped or result.damaged
    assert held.get_stats()["turn_count"] <= 1


def test_names_that_lead_out_of_an_archive_are_passed_over(tmp_path: Path, held: ALMA) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        for name in ("../../evil.md", "/etc/evil.md", "C:/evil.md", "..\\evil.md", "good.md"):
            out.writestr(name, "Some words about it.")
    result = ingest(tmp_path, "dev", alma=held)
    assert [name.rpartition("!/")[2] for name in result.files] == ["good.md"]
    assert sum(one.reason == "its name leads out of the archive" for one in result.skipped) == 4
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.zip"]


def test_a_damaged_or_encrypted_archive_is_said_to_be(tmp_path: Path, held: ALMA) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a.md", "\n".join(f"Words number {n}." for n in range(3000)))
        out.writestr("b.md", "Other words.")
    whole = (tmp_path / "a.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "rot.zip").write_bytes(whole[:2000] + b"\xff" * 40 + whole[2040:])
    locked = bytearray(whole)
    for at in (whole.find(b"PK\x03\x04") + 6, whole.find(b"PK\x01\x02") + 8):
        locked[at] |= 1
    (tmp_path / "locked.zip").write_bytes(bytes(locked))
    result = ingest(tmp_path, "dev", alma=held)
    assert "not a complete zip archive" in reasons(result)["cut.zip"]
    assert any(one.reason == "encrypted" for one in result.skipped)
    assert any("damaged" in one.reason or "unpacked" in one.reason for one in [*result.damaged, *result.skipped])
    assert "Other words." in {turn.text for turn in _turns(held)}


def _turns(alma: ALMA) -> list[Any]:
    return [turn for one in alma.list("episode", limit=1000) for turn in alma.get(one.id).turns]


# -- folders


def test_links_and_loops_are_not_followed(tmp_path: Path, held: ALMA) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "note.md").write_text("Some words.")
    (tmp_path / "outside.md").write_text("A secret of somebody.")
    try:
        (root / "a" / "b" / "loop").symlink_to(root, target_is_directory=True)
        (root / "out.md").symlink_to(tmp_path / "outside.md")
        (root / "self.md").symlink_to(root / "self.md")
    except OSError:
        pytest.skip("links cannot be made here")
    result = ingest(root, "dev", alma=held)
    assert [Path(name).name for name in result.files] == ["note.md"]
    assert reasons(result) == dict.fromkeys(["loop", "out.md", "self.md"], "a link; links are not followed")
    with pytest.raises(ValidationError, match="there is no file or folder"):
        ingest(root / "self.md", "dev", alma=held)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_what_is_no_plain_file_is_not_opened(tmp_path: Path, held: ALMA) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    assert reasons(ingest(tmp_path, "dev", alma=held)) == {"pipe.md": "not a regular file"}


def test_binary_files_are_skipped(tmp_path: Path, held: ALMA) -> None:
    (tmp_path / "a.md").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "b.txt").write_bytes(b"%PDF-1.7\n%\xe2\xe3")
    (tmp_path / "c.json").write_bytes(b"\x1f\x8b\x08\x00abc")
    (tmp_path / "d.md").write_bytes(b"")
    (tmp_path / "e.md").write_bytes(b"\0" * 5000)
    result = ingest(tmp_path, "dev", alma=held)
    assert not result.files
    assert reasons(result) == {
        "a.md": "not text",
        "b.txt": "a PDF",
        "c.json": "packed; unpack it first",
        "d.md": "empty",
        "e.md": "not text",
    }


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="everything may be read here")
def test_what_may_not_be_read_is_said(tmp_path: Path, held: ALMA) -> None:
    (tmp_path / "a.md").write_text("x")
    (tmp_path / "a.md").chmod(0)
    assert "cannot be read" in reasons(ingest(tmp_path, "dev", alma=held))["a.md"]


def test_a_file_that_vanishes_is_said_and_the_others_are_read(
    tmp_path: Path, held: ALMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("First words.")
    (tmp_path / "b.md").write_text("Second words.")
    survey_bytes = sources.survey_bytes

    def vanishing(source: sources.Source) -> sources.Survey:
        found = survey_bytes(source)
        if source.leaf == "a.md":
            (tmp_path / "a.md").unlink()
        return found

    monkeypatch.setattr("alma.ingestion.intake.survey_bytes", vanishing)
    result = ingest(tmp_path, "dev", alma=held)
    assert [(Path(one.path).name, one.reason[:30]) for one in result.damaged] == [
        ("a.md", "the rest of the file could not")
    ]
    assert [turn.text for turn in _turns(held)] == ["Second words."]


def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, held: ALMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("First words.")
    survey_bytes = sources.survey_bytes

    def growing(source: sources.Source) -> sources.Survey:
        found = survey_bytes(source)
        with (tmp_path / "a.md").open("a") as file:
            file.write("\n\n# More\n\nWords that came later.")
        return found

    with monkeypatch.context() as patch:
        patch.setattr("alma.ingestion.intake.survey_bytes", growing)
        ingest(tmp_path, "dev", alma=held)
    assert "files unchanged" not in ingest(tmp_path, "dev", alma=held).counts
    assert ingest(tmp_path, "dev", alma=held).counts["files unchanged"] == 1


def test_a_file_that_is_restored_after_it_was_read_is_read_again(
    tmp_path: Path, held: ALMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.md").write_text("First words.")
    survey_bytes = sources.survey_bytes

    def replacing(source: sources.Source) -> sources.Survey:
        found = survey_bytes(source)
        (tmp_path / "a.md").write_text("Half of")
        return found

    with monkeypatch.context() as patch:
        patch.setattr("alma.ingestion.intake.survey_bytes", replacing)
        ingest(tmp_path, "dev", alma=held)
    (tmp_path / "a.md").write_text("First words.")
    assert "files unchanged" not in ingest(tmp_path, "dev", alma=held).counts
    assert "First words." in {turn.text for turn in _turns(held)}


# -- texts


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "read as UTF-16"),
        ("utf-16-le", "read as UTF-16-LE"),
        ("utf-16-be", "read as UTF-16-BE"),
        ("utf-32", "read as UTF-32"),
        ("cp1252", "Windows-1252"),
    ],
)
@pytest.mark.parametrize("name", ["a.md", "b.jsonl", "c.json"])
def test_encodings(tmp_path: Path, held: ALMA, encoding: str, said: str, name: str) -> None:
    words = "Die Tür heißt «größer», und der Käse kostet fünf Franken."
    talk = Talk("t", "T", [Said("user", words)])
    text = {
        "a.md": words,
        "b.jsonl": formats.claude_code(talk),
        "c.json": json.dumps([formats.chatgpt(talk)], ensure_ascii=False),
    }[name]
    (tmp_path / name).write_bytes(text.encode(encoding))
    result = ingest(tmp_path, "dev", alma=held)
    assert [turn.text for turn in _turns(held)] == [words]
    assert (said in "".join(result.notes)) if said else not result.notes


@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_an_encoding_that_shows_late_is_read_right(tmp_path: Path, held: ALMA, size: int) -> None:
    words = "Die Tür heißt «größer», und der Käse kostet fünf Franken."
    filler = "Some plain words about it.\n\n"
    (tmp_path / "a.md").write_bytes((filler * (size // len(filler)) + words).encode("cp1252"))
    result = ingest_file(tmp_path / "a.md", "dev", alma=held)
    assert any(words in turn.text for turn in _turns(held))
    assert "Windows-1252" in result.notes[0]


def test_a_few_bad_bytes_do_not_make_it_latin(tmp_path: Path, held: ALMA) -> None:
    (tmp_path / "a.md").write_bytes("Käse und Brot. ".encode() * 20 + b"\xff ende")
    result = ingest(tmp_path, "dev", alma=held)
    assert "some bytes are not UTF-8" in result.notes[0]
    assert "Käse und Brot." in _turns(held)[0].text


def test_zeros_in_texts_and_transcripts(tmp_path: Path, held: ALMA) -> None:
    (tmp_path / "a.md").write_bytes(b"Some words\0 here.\n" + b"More of them." * 20)
    (tmp_path / "b.jsonl").write_bytes(formats.claude_code(TALK).encode() + b"\0" * 300 + b"\n" + b'{"type": "user"}\n')
    result = ingest(tmp_path, "dev", alma=held)
    assert {one.place for one in result.damaged} == {f"line {formats.claude_code(TALK).count(chr(10)) + 1}"}
    assert "Some words here.\n" in "".join(turn.text for turn in _turns(held))


@pytest.mark.parametrize("shape", ["list", "object", "lines"])
def test_half_written_exports_are_kept_as_far_as_they_are_whole(tmp_path: Path, held: ALMA, shape: str) -> None:
    talks = [Talk(f"t{n}", "T", [Said("user", f"Words number {n}.", later(n))]) for n in range(5)]
    listed = json.dumps([formats.chatgpt(talk) for talk in talks])
    text = {
        "list": listed,
        "object": f'{{"user": "x", "conversations": {listed}}}',
        "lines": "".join(map(formats.codex, talks)),
    }[shape]
    (tmp_path / "export.json").write_text(text[: int(len(text) * 0.9)])
    first = ingest(tmp_path, "dev", alma=held)
    assert len(first.damaged) == 1
    assert held.get_stats()["turn_count"] == 4
    (tmp_path / "export.json").write_text(text)
    assert not ingest(tmp_path, "dev", alma=held).damaged
    assert held.get_stats()["turn_count"] == 5


def test_a_damaged_element_costs_only_itself(tmp_path: Path, held: ALMA) -> None:
    talks = [Talk(f"t{n}", "T", [Said("user", f"Words number {n}.", later(n))]) for n in range(5)]
    parts = [json.dumps(formats.chatgpt(talk)) for talk in talks]
    parts[1] = parts[1].replace('"mapping"', 'mapping"', 1)
    parts[3] = parts[3][:-40]
    (tmp_path / "export.json").write_text(f"[{', '.join(parts)}]")
    result = ingest(tmp_path, "dev", alma=held)
    assert [one.place.partition(" (")[0] for one in result.damaged] == ["element 1", "element 3"]
    assert {turn.text for turn in _turns(held)} == {f"Words number {n}." for n in (0, 2, 4)}


def test_deep_nesting_and_huge_numbers(tmp_path: Path, held: ALMA) -> None:
    deep = '{"title": "d", "create_time": 1, "mapping": ' + "[" * 200_000 + "]" * 200_000 + "}"
    found = formats.chatgpt(TALK)
    found["create_time"] = 10**300
    whole = json.dumps(found).replace('"update_time": ', f'"update_time": {"9" * 10_000}, "x": ')
    (tmp_path / "export.json").write_text(
        f"[{whole}, {deep}, {json.dumps(formats.chatgpt(Talk('u', 'U', TALK.turns)))}]"
    )
    (tmp_path / "lines.jsonl").write_text(formats.codex(TALK) + "[" * 200_000 + "\n" + '{"a":' * 100_000 + "\n")
    result = ingest(tmp_path, "dev", alma=held)
    assert result.counts["conversations"] == 3
    assert sorted(one.reason for one in result.damaged) == ["nested too deeply"] * 3


def test_names_of_speakers_and_sessions_are_only_names(tmp_path: Path, held: ALMA) -> None:
    for number, id in enumerate(("../../../etc/passwd", "a/b", "x" * 5000, "\0evil", "..", "con\u202e", "ok-1")):
        (tmp_path / f"{number}.jsonl").write_text(formats.claude_code(Talk(id, "T", TALK.turns)))
    formats.slack(tmp_path / "slack", [TALK])
    users = [{**one, "profile": {"display_name": "\x1b[31m" + "N" * 4000}} for one in formats.SLACK_USERS]
    (tmp_path / "slack" / "users.json").write_text(json.dumps(users))
    result = ingest_conversations(tmp_path, "dev", alma=held)
    assert result.counts["episodes"] == 8
    sessions = {one.session_id for one in result.episodes}
    assert "claude-code:ok-1" in sessions
    assert not [one for one in sessions if ".." in one or "/" in one or len(one) > 200]
    assert all(len(turn.speaker) <= 120 for turn in _turns(held))


def test_messages_without_words_and_very_long_ones(tmp_path: Path, held: ALMA) -> None:
    long = "\n\n".join(f"Paragraph {n} of many, with some words in it." for n in range(2_500))
    turns = [Said("user", "\u200b"), Said("assistant", "   "), Said("user", long), Said("assistant", "\x1b[0m\x07")]
    (tmp_path / "a.jsonl").write_text(formats.claude_code(Talk("t", "T", turns)))
    ingest(tmp_path, "dev", alma=held)
    kept = _turns(held)
    assert "".join("".join(turn.text.split()) for turn in kept) == "".join(long.split())
    assert len(kept) > 4


HUGE = """
import sys
sys.path.insert(0, sys.argv[2])
from benchmarks.speed import peak_mb
from alma import ALMA
from alma.ingestion import ingest
from alma.stores.memory import MemoryStore
with ALMA(MemoryStore(), None, project_id="p") as alma:
    result = ingest(sys.argv[1], "dev", alma=alma)
    print(alma.get_stats()["turn_count"], len(result.damaged), peak_mb())
    for one in result.damaged:
        print(one.reason)
"""


def test_lines_of_a_hundred_megabytes_are_passed_over_in_little_memory(tmp_path: Path) -> None:
    filler = '{"type": "user", "message": {"role": "user", "content": "' + "x" * 100_000_000 + '"}}\n'
    with (tmp_path / "a.jsonl").open("w") as file:
        file.write(formats.claude_code(TALK))
        file.write(filler)
        file.write(json.dumps({"type": "user", "message": {"role": "user", "content": "after it"}}))
    with (tmp_path / "b.json").open("w") as file:
        found = formats.chatgpt(TALK)
        huge = json.dumps({**found, "id": "huge"})[:-1] + ', "blob": "' + "y" * 100_000_000 + '"}'
        file.write(f"[{json.dumps(found)}, {huge}, {json.dumps({**found, 'conversation_id': 'last'})}]")
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", HUGE, str(tmp_path), root], capture_output=True, text=True, check=True)
    counts, *told = done.stdout.splitlines()
    turns, damaged, peak = counts.split()
    assert (int(turns), int(damaged)) == (7, 2)
    assert told == [f"longer than {LIMIT:,} characters; skipped"] * 2
    assert float(peak) < 300


def test_nothing_of_a_plan_is_written(tmp_path: Path) -> None:
    formats.slack(tmp_path / "slack", [TALK])
    before = sorted((one, one.stat().st_mtime_ns) for one in tmp_path.rglob("*"))
    plan(tmp_path)
    assert sorted((one, one.stat().st_mtime_ns) for one in tmp_path.rglob("*")) == before


def test_a_cursor_database_is_not_touched(tmp_path: Path, held: ALMA) -> None:
    formats.cursor_database(tmp_path / "state.vscdb", [TALK])
    before = (tmp_path / "state.vscdb").read_bytes()
    ingest_file(tmp_path / "state.vscdb", "dev", alma=held)
    assert (tmp_path / "state.vscdb").read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["state.vscdb"]
