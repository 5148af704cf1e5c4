"""From loose arguments to what the engine takes: every value is checked here, once, for all faces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .engine import validate
from .engine.context import Engine
from .engine.drafts import Draft, Episode, Statement
from .engine.episodes import Conversation, Said
from .engine.retrieve.request import Level, Mode, Request
from .engine.rules import RULE_CHARS, Teaching
from .errors import ValidationError, unknown
from .types.kinds import MemoryType, Result
from .types.record import Origin, Provenance, Trust, new_id
from .types.rules import LASTING, Reach, RuleSource

Given = Mapping[str, Any]
Proposal = Draft | Statement | Teaching

_LEARN = (
    "agent", "task", "outcome", "strategy_used", "task_type", "duration_ms", "error_message", "feedback",
    "retrieval_id", "idempotency_key", "user_id", "shared", "tags", "metadata",
)  # fmt: skip
_EPISODE = ("agent", "session_id", "turns", "user_id", "title", "source", "tags", "metadata")
_MAX_TITLE = 500
_TURN = ("speaker", "text", "at", "id", "role", "content")
_ADD: Mapping[MemoryType, tuple[str, ...]] = {
    MemoryType.USER_PREFERENCE: ("user_id", "category", "preference", "attribute"),
    MemoryType.DOMAIN_KNOWLEDGE: ("agent", "domain", "fact", "subject", "attribute", "user_id"),
    MemoryType.HEURISTIC: ("agent", "condition", "strategy", "category", "user_id"),
    MemoryType.RULE: ("agent", "rule", "trigger", "why", "reach", "user_id"),
    MemoryType.ANTI_PATTERN: ("agent", "pattern", "why_bad", "better_alternative", "condition", "category", "user_id"),
}


def agent(engine: Engine, given: object) -> str:
    return engine.agent(validate.name("agent", given))


def request(engine: Engine, given: Given) -> Request:
    """The arguments of `retrieve`."""
    top_k, user, types = given.get("top_k"), given.get("user_id"), given.get("types")
    named = None if types is None else validate.names("types", types)
    made = Request(
        task=validate.text("task", given.get("task")),
        agent=agent(engine, given.get("agent")),
        user=None if user is None else validate.name("user_id", user),
        top_k=None if top_k is None else validate.whole("top_k", top_k, 1, validate.MAX_TOP_K),
        mode=validate.choice("mode", given.get("mode"), Mode),
        types=None if named is None else frozenset(validate.choice("type", one, MemoryType) for one in named),
        tags=validate.names("tags", given.get("tags")),
        task_type=validate.optional_text("task_type", given.get("task_type")) or "",
        since=validate.moment("since", given.get("since")),
        until=validate.moment("until", given.get("until")),
        as_of=validate.moment("as_of", given.get("as_of")),
        level=validate.choice("level", given.get("level"), Level),
        progressive=bool(given.get("progressive")),
    )
    if made.since is not None and made.until is not None and made.since >= made.until:
        raise ValidationError(f"since ({made.since.isoformat()}) must lie before until ({made.until.isoformat()})")
    return made


def episode(engine: Engine, given: Given) -> Episode:
    """The arguments of `learn`."""
    _known("learn", given, _LEARN)
    duration, key = given.get("duration_ms"), given.get("idempotency_key")
    return Episode(
        agent=agent(engine, given.get("agent")),
        task=validate.text("task", given.get("task")),
        strategy=validate.text("strategy_used", given.get("strategy_used")),
        result=validate.choice("outcome", given.get("outcome"), Result),
        task_type=validate.optional_text("task_type", given.get("task_type")) or "",
        duration_ms=None if duration is None else validate.whole("duration_ms", duration, 0, 10**15),
        error=validate.output("error_message", given.get("error_message")),
        feedback=validate.optional_text("feedback", given.get("feedback")),
        retrieval=validate.optional_text("retrieval_id", given.get("retrieval_id")),
        idempotency_key=None if key is None else validate.name("idempotency_key", key),
        user=_user(given),
        shared=bool(given.get("shared")),
        tags=validate.names("tags", given.get("tags")),
        metadata=validate.metadata(given.get("metadata")),
    )


def _user(given: Given) -> str:
    """Whose it is; empty: nobody's in particular."""
    named = given.get("user_id")
    return validate.name("user_id", named) if validate.optional_text("user_id", named) else ""


def conversation(engine: Engine, given: Given) -> Conversation:
    """The arguments of `add_episode`."""
    _known("an episode", given, _EPISODE)
    turns = validate.many("turns", given.get("turns", ()))
    provenance = validate.provenance("source", given.get("source") or "conversation")
    if provenance.trust is not Trust.UNTRUSTED:
        # That it was said is certain; whether it is true is another matter.
        provenance = replace(provenance, origin=Origin.IMPORT, trust=Trust.LEARNED)
    said = [_said(f"turns[{at}]", one, provenance) for at, one in enumerate(turns)]
    return Conversation(
        agent=agent(engine, given.get("agent")),
        session=validate.name("session_id", given.get("session_id")),
        turns=tuple(turn for turn in said if turn is not None),
        user=_user(given),
        title=_title(given.get("title")),
        provenance=provenance,
        tags=validate.names("tags", given.get("tags")),
        metadata=validate.metadata(given.get("metadata")),
    )


def _title(given: object) -> str:
    return validate.text("title", given, _MAX_TITLE) if validate.optional_text("title", given) else ""


def _said(label: str, given: Given, provenance: Provenance) -> Said | None:
    """One turn; None when nothing was said in it. `role` and `content`, as model APIs call them, will do."""
    _known(f"{label}, a turn,", given, _TURN)
    text = validate.output(f"{label} text", _either(given, "text", "content"))
    if text is None:
        return None
    return Said(
        speaker=validate.name(f"{label} speaker", _either(given, "speaker", "role")),
        text=text,
        at=validate.moment(f"{label} at", given.get("at")),
        id=validate.optional_text(f"{label} id", given.get("id")) or "",
        provenance=provenance,
    )


def _either(given: Given, *names: str) -> object:
    """The first that is filled; else the first that is given."""
    told = [given[name] for name in names if given.get(name) is not None]
    return next((one for one in told if one != ""), told[0] if told else None)


def proposal(engine: Engine, given: Given) -> Proposal:
    """The arguments of an `add_` method, with the memory's `type`."""
    if not isinstance(given, Mapping):
        raise ValidationError(f"a memory to add must be a mapping of arguments, not {type(given).__name__}")
    kind = validate.choice("type", given.get("type"), MemoryType)
    if kind is MemoryType.OUTCOME:
        raise ValidationError("an outcome is recorded with learn or learn_many, not added")
    if kind is MemoryType.EPISODE:
        raise ValidationError("an episode is recorded with add_episode or add_episodes")
    _known(f"a {kind}", given, (*_ADD[kind], "type", "source", "tags", "metadata"))
    common: dict[str, Any] = {
        "tags": validate.names("tags", given.get("tags")),
        "provenance": validate.provenance("source", given.get("source") or "user_stated"),
    }
    return _PROPOSE[kind](engine, given, common)


def _preference(engine: Engine, given: Given, common: dict[str, Any]) -> Draft:
    category = validate.name("category", given.get("category"))
    preference = validate.text("preference", given.get("preference"))
    return Draft(
        kind=MemoryType.USER_PREFERENCE,
        user=validate.name("user_id", given.get("user_id")),
        body={"category": category, "preference": preference, **_key(given, "attribute"), **_metadata(given)},
        **common,
    )


def _knowledge(engine: Engine, given: Given, common: dict[str, Any]) -> Draft:
    domain = validate.name("domain", given.get("domain"))
    fact = validate.text("fact", given.get("fact"))
    return Draft(
        kind=MemoryType.DOMAIN_KNOWLEDGE,
        agent=agent(engine, given.get("agent")),
        user=_user(given),
        body={"domain": domain, "fact": fact, **_key(given, "subject", "attribute"), **_metadata(given)},
        category=domain,
        **common,
    )


def _key(given: Given, *names: str) -> dict[str, str]:
    """The explicit key, as far as it was given."""
    key = {name: validate.name(name, given[name]) for name in names if given.get(name) is not None}
    if "subject" in key and "attribute" not in key:
        raise ValidationError("subject needs attribute: together they are the key that a later fact replaces")
    return key


def _metadata(given: Given) -> dict[str, Any]:
    return {"metadata": validate.metadata(given.get("metadata"))}


def _rule(engine: Engine, given: Given, common: dict[str, Any]) -> Teaching:
    provenance: Provenance = common["provenance"]
    by_person = provenance.origin is Origin.USER
    return Teaching(
        id=new_id("tea"),
        provenance=provenance,
        at=engine.clock(),
        agent=agent(engine, given.get("agent")),
        user=_user(given),
        rule=validate.text("rule", given.get("rule"), RULE_CHARS),
        trigger=validate.optional_text("trigger", given.get("trigger")) or "",
        why=validate.optional_text("why", given.get("why")) or "",
        reach=_lasting(given.get("reach") or Reach.PROJECT),
        source=RuleSource.NOTE if by_person else RuleSource.IMPORT,
        # Only a person's words become a rule at once; what anybody else writes waits for a person.
        sure=by_person,
        tags=common["tags"],
        metadata=validate.metadata(given.get("metadata")),
    )


def _lasting(given: object) -> Reach:
    """A rule told outside any session cannot be one of a session."""
    reach = validate.choice("reach", given, Reach)
    if reach not in LASTING:
        raise ValidationError(unknown("reach", given, LASTING))
    return reach


def _heuristic(engine: Engine, given: Given, common: dict[str, Any]) -> Statement:
    return Statement(
        kind=MemoryType.HEURISTIC,
        agent=agent(engine, given.get("agent")),
        condition=validate.text("condition", given.get("condition")),
        strategy=validate.text("strategy", given.get("strategy")),
        user=_user(given),
        body={"metadata": validate.metadata(given.get("metadata"))},
        category=validate.optional_text("category", given.get("category")) or "",
        **common,
    )


def _anti_pattern(engine: Engine, given: Given, common: dict[str, Any]) -> Statement:
    body = {
        "why_bad": validate.text("why_bad", given.get("why_bad")),
        "better_alternative": validate.optional_text("better_alternative", given.get("better_alternative")) or "",
        "metadata": validate.metadata(given.get("metadata")),
    }
    return Statement(
        kind=MemoryType.ANTI_PATTERN,
        agent=agent(engine, given.get("agent")),
        condition=validate.optional_text("condition", given.get("condition")) or "",
        strategy=validate.text("pattern", given.get("pattern")),
        user=_user(given),
        body=body,
        category=validate.optional_text("category", given.get("category")) or "",
        **common,
    )


_PROPOSE: Mapping[MemoryType, Callable[[Engine, Given, dict[str, Any]], Proposal]] = {
    MemoryType.USER_PREFERENCE: _preference,
    MemoryType.DOMAIN_KNOWLEDGE: _knowledge,
    MemoryType.HEURISTIC: _heuristic,
    MemoryType.ANTI_PATTERN: _anti_pattern,
    MemoryType.RULE: _rule,
}


def memory_type(given: MemoryType | str | None) -> MemoryType | None:
    return None if given is None else validate.choice("memory_type", given, MemoryType)


def _known(what: str, given: Given, valid: Sequence[str]) -> None:
    if not isinstance(given, Mapping):
        raise ValidationError(f"{what} takes a mapping of arguments, not {type(given).__name__}")
    for name in given:
        if name not in valid:
            raise ValidationError(unknown(f"argument of {what}", name, valid))
