"""`alma add episode`: keep a conversation that is in a file."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import ValidationError
from ..types.kinds import Episode
from .draw import listing
from .marks import counted
from .opening import Later, opened
from .output import Output
from .parser import Subparsers, add_tags, command
from .reading import objects

if TYPE_CHECKING:
    from ..api import memories as api
else:
    api = Later("alma.api.memories")

_GIVEN = ("agent", "session_id", "user_id", "title", "tags")
_TURN = re.compile(r"turns\[(\d+)\](?:, (a turn),| )")


def register_episode(kinds: Subparsers) -> None:
    parser = command(
        kinds,
        "episode",
        add_episode,
        "keep a conversation, or what is new of it",
        """
        alma add episode chat.jsonl --agent ops --session 2026-05-07 --title "Moving to two regions"
        export_chat | alma add episode - --agent ops --session 42 --user ana
        """,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="its turns, as a JSON list or JSON Lines ('-': standard input); a turn has a speaker (or role) and a text "
        "(or content), and perhaps a time (at) and an id",
    )
    parser.add_argument("--agent", metavar="A", required=True, help="whose memory it is")
    parser.add_argument("--session", metavar="S", dest="session_id", required=True, help="the name of the conversation")
    parser.add_argument("--user", metavar="U", dest="user_id", help="with whom it was")
    parser.add_argument("--title", metavar="T", default="", help="what it was about")
    add_tags(parser)


def add_episode(args: argparse.Namespace, out: Output) -> int:
    turns = objects(args.file, "a speaker and a text")
    if not turns:
        raise ValidationError(f"{args.file} holds no turn; nothing was recorded")
    told = {name: getattr(args, name) for name in _GIVEN}
    with opened(args) as alma:
        try:
            episode = api.add_episode(alma, turns=[turn for _, turn in turns], **told)
        except ValidationError as error:
            raise ValidationError(_placed(str(error), [place for place, _ in turns])) from error
    if not out.answered({"memory": episode}):
        _tell(out, episode)
    return 0


def _placed(message: str, places: Sequence[str]) -> str:
    """`turns[2] text is …` said by where that turn stands."""
    found = _TURN.search(message)
    if found is None:
        return message
    said = f"{message[: found.start()]}{found[2] or ''}{message[found.end() :]}"
    return f"{places[int(found[1])]}: {said}"


def _tell(out: Output, episode: Episode) -> None:
    if episode.status == "retired":
        out.line(f"{episode.id} was deleted before and stays away; nothing was recorded")
        return
    out.line(f"kept {episode.id}, now of {counted(episode.turn_count, 'turn')}")
    out.show(listing([episode]))
