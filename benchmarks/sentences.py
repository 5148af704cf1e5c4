"""Score what `learn_from` understands of plain sentences, each told by itself, beside a trivial baseline.

    python -m benchmarks.sentences local [--half development]
    python -m benchmarks.sentences dump  --out FOLDER
    python -m benchmarks.sentences score --answers answers.jsonl [--half held_out]

The sentences are in tests/data/plain_sentences.jsonl: 48 of six kinds, and 24 that teach nothing. They were written
before the forms of the local reader for them, and are divided by a digest of their text. `dump` writes the prompts of a
model to FOLDER/prompts.jsonl, and each also to FOLDER/ID.txt. `python -m benchmarks.reading take` collects the answers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alma.extraction import Extracted, Kind, extract_conversation
from alma.models.registry import Recorded
from alma.ports import Model

from .reading import ASK

SENTENCES = Path(__file__).parent.parent / "tests" / "data" / "plain_sentences.jsonl"
HALVES = ("development", "held_out")
KINDS = {
    "fact": Kind.FACT,
    "preference": Kind.PREFERENCE,
    "problem": Kind.ANTI_PATTERN,
    "decision": Kind.DECISION,
    "rule": Kind.CORRECTION,
    "task": Kind.WORK_ITEM,
}
Row = dict[str, Any]
Read = Callable[[str], Sequence[Extracted]]


@dataclass(frozen=True, slots=True)
class SentenceScore:
    """How many sentences were understood, and how many that teach nothing were learned from."""

    typed: int
    statements: int
    false_alarms: int
    others: int

    @property
    def share(self) -> float:
        """The share of the statements with the right kind and words."""
        return self.typed / self.statements

    def __str__(self) -> str:
        alarms = f"{self.false_alarms} false alarms in {self.others} that teach nothing"
        return f"typed {self.typed} of {self.statements} ({self.share:.2f}), {alarms}"


def read_sentences(half: str = "") -> list[Row]:
    """Return the labelled sentences of a half, or all of them."""
    rows = [json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if half in ("", row["half"])]


def score_sentences(rows: Iterable[Row], read: Read) -> SentenceScore:
    """Score a reader of single sentences. A statement needs its kind, and its words in the texts of that kind."""
    typed = statements = false_alarms = others = 0
    for row in rows:
        findings = read(row["text"])
        if not row["kind"]:
            others += 1
            false_alarms += bool(findings)
            continue
        statements += 1
        typed += is_understood(row, findings)
    return SentenceScore(typed, statements, false_alarms, others)


def is_understood(row: Row, findings: Iterable[Extracted]) -> bool:
    """Return whether findings have the kind and the words of a sentence."""
    texts: list[str] = []
    for finding in findings:
        if finding.kind is KINDS[row["kind"]]:
            texts += [finding.text, *finding.fields.values()]
    joined = " ".join(texts).casefold()
    return bool(joined) and all(word.casefold() in joined for word in row["words"])


def read_locally(text: str) -> Sequence[Extracted]:
    """Return what is found without a model."""
    return extract_conversation([{"role": "user", "content": text}]).found


def read_as_fact(text: str) -> Sequence[Extracted]:
    """Take every sentence for a fact: the trivial baseline."""
    return [Extracted(kind=Kind.FACT, text=text, quote=text)]


def read_with(model: Model) -> Read:
    """Return a reader that asks a model."""
    return lambda text: extract_conversation([{"role": "user", "content": text}], model=model).found


def dump_prompts(folder: Path) -> int:
    """Write the prompts of all sentences to a folder, and return their number."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prompts.jsonl"
    path.unlink(missing_ok=True)
    score_sentences(read_sentences(), read_with(Recorded(None, path)))
    prompts = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for prompt in prompts:
        schema = json.dumps(prompt["schema"], indent=1)
        text = ASK.format(system=prompt["system"].strip(), text=prompt["text"], schema=schema)
        (folder / f"{prompt['id']}.txt").write_text(text, encoding="utf-8")
    return len(prompts)


def main() -> None:
    """Run a command of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sentences")
    parser.add_argument("action", choices=("local", "dump", "score"))
    parser.add_argument("--half", choices=HALVES, default="", help="only this half")
    parser.add_argument("--out", type=Path, help="dump: the folder for the prompts")
    parser.add_argument("--answers", type=Path, help="score: the recorded answers")
    chosen = parser.parse_args()
    if chosen.action == "dump":
        if chosen.out is None:
            parser.error("dump needs --out")
        print(f"{dump_prompts(chosen.out)} prompts in {chosen.out}")
        return
    if chosen.action == "score" and chosen.answers is None:
        parser.error("score needs --answers")
    read = read_locally if chosen.action == "local" else read_with(Recorded(chosen.answers, None))
    rows = read_sentences(chosen.half)
    print(f"{chosen.action}: {score_sentences(rows, read)}")
    print(f"every sentence as a fact: {score_sentences(rows, read_as_fact)}")


if __name__ == "__main__":
    main()
