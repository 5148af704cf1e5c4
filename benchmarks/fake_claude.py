#!/usr/bin/env python3
"""A `claude -p` that replays answers, for `benchmarks.again`.

The answer to a prompt is AGAIN_ANSWERS/KEY.json. Without one, the prompt is written to AGAIN_PROMPTS/KEY.txt, and the
call fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path

_ID = re.compile(r"\b[a-z]{3}_[0-9a-z]{26}\b")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?)?")


def main() -> int:
    text = sys.stdin.read()
    # Ids and dates change from run to run, so both are numbered: the same session gives the same key.
    ids = list(dict.fromkeys(_ID.findall(text)))
    for number, name in enumerate(ids):
        text = text.replace(name, f"rul_{number}")
    dates = list(dict.fromkeys(_DATE.findall(text)))
    for number, date in enumerate(dates):
        text = text.replace(date, f"DATE{number}")
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    answer = Path(os.environ["AGAIN_ANSWERS"], f"{key}.json")
    if answer.exists():
        print(json.dumps(build_reply(answer.read_text(), ids, dates, len(text))))
        return 0
    folder = Path(os.environ["AGAIN_PROMPTS"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{key}.txt").write_text(text)
    print(json.dumps({"type": "result", "subtype": "error", "is_error": True, "result": "Not logged in"}))
    return 1


def build_reply(answer: str, ids: list[str], dates: list[str], chars: int) -> dict[str, object]:
    """Return a reply of Claude Code with an answer in which the numbers are ids and dates again."""

    def restore_id(match: re.Match[str]) -> str:
        number = int(match[1])
        return ids[number] if number < len(ids) else match[0]

    def restore_date(match: re.Match[str]) -> str:
        number = int(match[1])
        return dates[number] if number < len(dates) else match[0]

    result = re.sub(r"rul_(\d+)\b", restore_id, answer)
    result = re.sub(r"\bDATE(\d+)\b", restore_date, result)
    usage = {"input_tokens": chars // 4, "output_tokens": 100}
    reply = {"type": "result", "subtype": "success", "is_error": False, "result": result}
    return {**reply, "stop_reason": "end_turn", "usage": usage}


if __name__ == "__main__":
    sys.exit(main())
