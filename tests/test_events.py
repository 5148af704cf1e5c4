"""Each committed change of a memory is one event, for subscribers in the process and in the outbox of webhooks."""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Clock, Opener
from tests.engine.test_consolidate import WORDINGS, Model

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.context import EventHub
from alma.errors import ALMAError, BusyError, ConflictError, ValidationError
from alma.events import EventType, MemoryEvent, subscribe
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.events import WebhookSettings
from alma.types.kinds import MEMORY_KINDS
from alma.types.query import Where
from alma.types.record import Record

ALL = tuple(EventType)
WORD = "Xylophonequartz"


def listen(alma: ALMA, types: tuple[str, ...] = ALL) -> list[MemoryEvent]:
    events: list[MemoryEvent] = []
    subscribe(alma, events.append, types)
    return events


def types_of(events: list[MemoryEvent]) -> list[str]:
    return [str(one.type) for one in events]


def with_webhook(alma: ALMA, types: tuple[str, ...] = ALL) -> ALMA:
    hook = WebhookSettings(url="https://example.org/alma", secret_env="HOOK_SECRET", events=types)
    alma.engine = replace(alma.engine, events=EventHub([hook]))
    return alma


def read_outbox(alma: ALMA) -> list[Record]:
    return sorted(alma.engine.store.scan(Where(kinds={"delivery"})), key=lambda one: one.id)


# -- one event for each change


def test_what_happens_to_a_fact_is_told_by_the_type(alma: ALMA) -> None:
    events = listen(alma)
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1", user_id="ana")
    alma.update(fact.id, fact="Staging is db2")
    alma.record_feedback(fact.id)
    alma.update(fact.id, status="archived")
    alma.update(fact.id, status="active")
    alma.delete(fact.id)
    assert types_of(events) == ["learned", "changed", "judged", "forgotten", "restored", "deleted"]
    assert {one.record for one in events} == {fact.id}
    first, changed, *_, deleted = events
    assert (first.kind, first.project, first.agent, first.user) == ("domain_knowledge", "test", "dev", "ana")
    assert (first.text, first.status, first.call) == ("Staging is db1", "active", "add_knowledge")
    assert changed.text == "Staging is db2"
    assert len({first.change, changed.change, ""}) == 3
    assert [one.version for one in events] == [1, 2, 3, 4, 5, 0]
    assert (deleted.text, deleted.user, deleted.why) == ("", "", "")
    assert len({one.id for one in events}) == len(events)


def test_a_superseded_memory_names_its_successor_and_not_its_words(alma: ALMA) -> None:
    events = listen(alma)
    key = {"subject": "staging", "attribute": "host"}
    old = alma.add_domain_knowledge("dev", "hosts", "The host is Alpha", **key)
    new = alma.add_domain_knowledge("dev", "hosts", f"The host is {WORD}", **key)
    [superseded] = [one for one in events if one.type == "superseded"]
    assert (superseded.record, superseded.related, superseded.text) == (old.id, (new.id,), "The host is Alpha")
    assert WORD not in str(superseded)
    assert {one.change for one in events if one.record != old.id} <= {superseded.change}


def test_a_lesson_is_learned_judged_and_forgotten_with_its_reason(alma: ALMA) -> None:
    events = listen(alma)
    for _ in range(4):
        alma.learn("dev", "Deploy the API", "success", "Blue-green deployment")
    lesson = alma.list("heuristic")[0].id
    own = [one for one in events if one.record == lesson]
    assert types_of(own) == ["learned", "judged"]
    assert own[0].why == "3 of 3 worked"
    assert types_of([one for one in events if one.kind == "outcome"]) == ["learned"] * 4
    assert {one.kind for one in events} == {"outcome", "heuristic"}


def test_a_merged_memory_names_the_one_it_is_merged_into() -> None:
    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Model("same"))
    facts = [alma.add_domain_knowledge("dev", "ops", text).id for text in WORDINGS[:2]]
    events = listen(alma)
    [merge] = alma.consolidate().merged
    [source] = merge.sources
    by_record = {one.record: one for one in events}
    assert by_record.keys() == set(facts)
    assert len(events) == 2
    assert (by_record[source].type, by_record[source].related) == ("merged", (merge.survivor,))
    assert (by_record[merge.survivor].type, by_record[merge.survivor].related) == ("changed", ())
    assert source in by_record[merge.survivor].why


def test_two_memories_that_wait_for_a_decision_are_a_conflict() -> None:
    alma = ALMA(MemoryStore(), None, clock=Clock(), model=Model("contradicts", 0.5))
    facts = [alma.add_domain_knowledge("dev", "ops", text).id for text in WORDINGS[:2]]
    events = listen(alma)
    [conflict] = alma.consolidate().conflicts
    assert [(one.type, one.record, set(one.related), one.text) for one in events] == [
        ("conflict", conflict, set(facts), "")
    ]
    del events[:]
    alma.resolve_conflict(conflict, "newer")
    assert [(one.type, one.record) for one in events] == [("superseded", facts[0])]


def test_what_is_undone_is_an_event_of_its_own(alma: ALMA) -> None:
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    events = listen(alma)
    alma.update(fact.id, fact="Staging is db2")
    alma.revert(events[0].change)
    assert [(one.type, one.text, one.call) for one in events] == [
        ("changed", "Staging is db2", "update"),
        ("changed", "Staging is db1", "revert"),
    ]


def test_a_candidate_that_is_accepted_is_learned(alma: ALMA) -> None:
    events = listen(alma)
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1", source="content")
    alma.update(fact.id, status="active")
    assert [(one.type, one.status) for one in events] == [("learned", "candidate"), ("learned", "active")]


def test_a_retrieval_is_an_event_with_what_was_shown(alma: ALMA) -> None:
    fact = alma.add_domain_knowledge("dev", "hosts", "The staging database is db1")
    events = listen(alma)
    memories = alma.retrieve("Which is the staging database?", "dev")
    [event] = events
    assert (event.type, event.record, event.kind) == ("retrieved", memories.retrieval_id, "retrieval")
    assert event.related == (fact.id,)
    assert event.text == "Which is the staging database?"


def test_a_secret_does_not_get_into_an_event(alma: ALMA) -> None:
    events = listen(alma)
    alma.add_domain_knowledge("dev", "hosts", "The password=hunter2hunter2 is old")
    alma.retrieve("Use password=hunter2hunter2 to log in", "dev")
    assert "hunter2" not in str(events)


@pytest.mark.system
def test_all_memories_of_an_erased_user_are_deleted_without_naming_the_user(alma: ALMA) -> None:
    with_webhook(alma)
    events = listen(alma)
    facts = [
        alma.add_domain_knowledge("dev", "x", f"Anastasia's fact {n} is {WORD}", user_id="anastasia").id
        for n in range(3)
    ]
    alma.add_domain_knowledge("dev", "x", "It stays")
    del events[:]
    alma.erase_user("anastasia")
    assert sorted(one.record for one in events) == sorted(facts)
    assert set(types_of(events)) == {"deleted"}
    outbox = read_outbox(alma)
    assert [one.body["event"]["type"] for one in outbox] == ["learned", "deleted", "deleted", "deleted"]
    assert "anastasia" not in str(outbox)
    assert WORD not in str(outbox)


# -- the law: one event for each changed memory of a committed write

TEXTS = ("Staging is db1", "Production is db7", "Use tabs", "Always run the tests", "Never push on Friday", "Ask Ana")
STEPS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=14)


def take_step(alma: ALMA, step: int, text: int, choice: int) -> None:
    """Do one of many things to a memory; some are refused, and then nothing is written."""
    ids = sorted(one.id for one in alma.engine.store.scan(Where(kinds=set(MEMORY_KINDS))))
    id = ids[choice % len(ids)] if ids else "kno_none"
    user = (None, "ana")[choice % 2]
    actions: list[Callable[[], object]] = [
        lambda: alma.add_domain_knowledge("dev", "hosts", TEXTS[text], user_id=user),
        lambda: alma.add_domain_knowledge("dev", "hosts", f"{TEXTS[text]} {choice}", attribute="main"),
        lambda: alma.add_user_preference("ana", "style", TEXTS[text], attribute=("a", None)[choice % 2]),
        lambda: alma.learn("dev", "Deploy", ("success", "failure")[choice % 2], TEXTS[text]),
        lambda: alma.learn_many([{"agent": "dev", "task": "Build", "outcome": "success", "strategy_used": "x"}] * 3),
        lambda: alma.add_rule("dev", TEXTS[text], source=("user", "agent")[choice % 2]),
        lambda: alma.update(id, status=("active", "archived", "retired", "candidate")[choice % 4]),
        lambda: alma.update(id, tags=[TEXTS[text]]),
        lambda: alma.record_feedback(id, signal=("used", "thumbs_down")[choice % 2]),
        lambda: [alma.delete(one) for one in ids] if choice % 3 == 0 else alma.delete(id),
        lambda: alma.add_episode("dev", f"s{text}", [{"speaker": "Ana", "text": f"{TEXTS[text]} {choice}"}]),
        lambda: alma.erase_user("ana") if choice % 4 == 0 else alma.forget(older_than_days=0, below_confidence=1.0),
    ]
    actions[step]()


@given(steps=STEPS)
@settings(max_examples=60)
def test_events_are_the_changes_between_two_lists(steps: list[tuple[int, int, int]]) -> None:
    with ALMA(MemoryStore(), HashEmbedder(), project_id="law", clock=Clock()) as alma:
        with_webhook(alma)
        events = listen(alma)
        where = Where(kinds=set(MEMORY_KINDS))
        before = {one.id: one for one in alma.engine.store.scan(where)}
        for step in steps:
            seen, outbox = len(events), {one.id for one in read_outbox(alma)}
            try:
                take_step(alma, *step)
            except ALMAError:
                assert len(events) == seen
            after = {one.id: one for one in alma.engine.store.scan(where)}
            fresh = events[seen:]
            changed = {id for id in before.keys() | after.keys() if before.get(id) != after.get(id)}
            several = step[0] in (9, 11)  # More than one write: what is deleted, and what follows from it.
            assert {one.record for one in fresh} == changed
            assert several or len(fresh) == len(changed)
            for event in fresh:
                record = after.get(event.record)
                if record is None:
                    assert several or event.type == "deleted"
                elif not several:
                    assert (event.version, event.status, event.user) == (record.version, record.status, record.user)
                    is_new = event.record not in before
                    assert event.type != "learned" or is_new or before[event.record].status == "candidate"
            deliveries = [one for one in read_outbox(alma) if one.id not in outbox]
            written = Counter(one.body["event"]["id"] for one in deliveries)
            assert set(written.values()) <= {1}
            assert several or written.keys() == {one.id for one in fresh}
            assert {one.body["event"]["record"] for one in deliveries if one.body["event"]["type"] != "deleted"} <= set(
                after
            )
            before = after


# -- subscribers


def test_subscribers_get_the_types_they_name_until_they_stop(alma: ALMA) -> None:
    learned: list[MemoryEvent] = []
    usual: list[MemoryEvent] = []
    stop = subscribe(alma, learned.append, ("learned",))
    subscribe(alma, usual.append)
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    alma.record_feedback(fact.id)
    alma.retrieve("Staging?", "dev")
    stop()
    stop()
    alma.update(fact.id, tags=["x"])
    assert types_of(learned) == ["learned"]
    assert types_of(usual) == ["learned", "changed"]


def test_an_unknown_type_is_refused_with_the_valid_ones(alma: ALMA) -> None:
    with pytest.raises(ValidationError, match=r"learnt.*learned"):
        subscribe(alma, print, ("learnt",))


def test_a_subscriber_that_fails_breaks_nothing(alma: ALMA, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: MemoryEvent) -> None:
        raise ConflictError("not mine")

    subscribe(alma, fail)
    events = listen(alma)
    with caplog.at_level(logging.ERROR, "alma"):
        fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert alma.get(fact.id).id == fact.id
    assert types_of(events) == ["learned"]
    assert "subscriber failed" in caplog.text


def test_a_subscriber_sees_what_it_is_told_and_may_write(alma: ALMA) -> None:
    def confirm(event: MemoryEvent) -> None:
        assert alma.get(event.record).id == event.record
        if event.kind == "domain_knowledge":
            alma.add_user_preference("ana", "style", "Short answers")

    subscribe(alma, confirm, ("learned",))
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert len(alma.list("user_preference")) == 1


def test_a_write_that_is_repeated_or_refused_is_told_once_or_never(open_alma: Opener) -> None:
    alma = open_alma()
    with_webhook(alma)
    events = listen(alma)
    put, calls = alma.engine.store.put, Counter[str]()

    class Busy:
        def __getattr__(self, name: str) -> Any:
            return getattr(inner, name)

        def put(self, records: Any) -> None:
            calls["put"] += 1
            if calls["put"] <= 2:
                raise ConflictError("another was faster")
            if calls["put"] == 4:
                raise BusyError("locked")
            put(records)

    inner = alma.engine.store
    alma.engine = replace(alma.engine, store=Busy())  # type: ignore[arg-type]
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert (calls["put"], types_of(events), len(read_outbox(alma))) == (3, ["learned"], 1)
    with pytest.raises(BusyError):
        alma.add_domain_knowledge("dev", "hosts", "Production is db7")
    assert (types_of(events), len(read_outbox(alma))) == (["learned"], 1)


def test_threads_get_one_event_each(tmp_path: Path) -> None:
    with ALMA(SQLiteStore(tmp_path / "alma.db"), HashEmbedder(), project_id="test") as alma:
        with_webhook(alma)
        events = listen(alma)
        fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")

        def work(seed: int) -> None:
            for number in range(10):
                random.Random(seed).random()
                alma.record_feedback(fact.id)
                alma.add_domain_knowledge("dev", "hosts", f"Host {seed} {number}")

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert Counter(types_of(events)) == {"learned": 41, "judged": 40}
        judged = [one.body["event"]["version"] for one in read_outbox(alma) if one.body["event"]["record"] == fact.id]
        assert sorted(judged) == list(range(1, 42))


# -- the outbox


def test_nothing_is_written_for_nobody(alma: ALMA) -> None:
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    alma.retrieve("Staging?", "dev")
    alma.delete(fact.id)
    assert read_outbox(alma) == []
    assert not alma.engine.events.has_listeners


def test_a_webhook_gets_the_types_it_names(alma: ALMA) -> None:
    with_webhook(alma, ("learned", "retrieved"))
    fact = alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    alma.record_feedback(fact.id)
    alma.retrieve("Staging?", "dev")
    assert [one.body["event"]["type"] for one in read_outbox(alma)] == ["learned", "retrieved"]


def test_a_retrieval_that_cannot_be_noted_at_once_is_told_once(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "alma.db")
    with ALMA(store, HashEmbedder(), project_id="test") as alma:
        with_webhook(alma)
        alma.add_domain_knowledge("dev", "hosts", "The staging database is db1")
        events = listen(alma)
        other = SQLiteStore(tmp_path / "alma.db")
        with other._db.write():
            memories = alma.retrieve("Which is the staging database?", "dev")
        assert alma.engine.notes.waiting
        assert types_of(events) == ["retrieved"]
        other.close()
    with ALMA(SQLiteStore(tmp_path / "alma.db")) as again:
        told = [one.body["event"] for one in read_outbox(again)]
        assert [one["record"] for one in told if one["type"] == "retrieved"] == [memories.retrieval_id]
        assert again.engine.store.get([str(memories.retrieval_id)])


def test_a_deleted_memory_leaves_the_outbox(alma: ALMA) -> None:
    with_webhook(alma)
    fact = alma.add_domain_knowledge("dev", "music", f"The {WORD} is in the cellar")
    alma.update(fact.id, tags=["old"])
    alma.delete(fact.id)
    [delivery] = read_outbox(alma)
    assert (delivery.body["event"]["type"], delivery.body["event"]["record"]) == ("deleted", fact.id)
    assert WORD not in str(delivery)


def test_a_deleted_outcome_takes_its_words_out_of_what_waits_about_its_lesson(alma: ALMA) -> None:
    with_webhook(alma)
    alma.learn("dev", f"Deploy {WORD}", "success", f"Use {WORD}")
    first = alma.list("outcome")[0]
    for _ in range(3):
        alma.learn("dev", f"Deploy {WORD}", "success", f"Use {WORD}")
    lesson = alma.list("heuristic")[0].id
    for one in alma.list("outcome"):
        alma.delete(one.id)
    outbox = read_outbox(alma)
    assert {one.body["event"]["type"] for one in outbox} == {"deleted"}
    assert {first.id, lesson} <= {one.body["event"]["record"] for one in outbox}
    assert WORD not in str(outbox)


def ask_about(alma: ALMA, user: str | None = None) -> str:
    """Retrieve with a word in the question, and return the id of the memory that it shows."""
    fact = alma.add_domain_knowledge("dev", "music", "The piano is in the cellar", user_id=user)
    shown = alma.retrieve(f"Is the piano of {WORD} in the cellar?", "dev", user)
    assert [one.id for one in shown] == [fact.id]
    assert WORD in str(read_outbox(alma))
    return fact.id


def test_the_question_leaves_the_outbox_with_a_memory_that_it_showed(alma: ALMA) -> None:
    with_webhook(alma)
    alma.delete(ask_about(alma))
    assert WORD not in str(read_outbox(alma))


@pytest.mark.system
def test_the_question_leaves_the_outbox_with_its_user(alma: ALMA) -> None:
    with_webhook(alma)
    ask_about(alma, "ana")
    alma.erase_user("ana")
    assert WORD not in str(read_outbox(alma))


def test_the_question_leaves_the_outbox_with_the_note_of_its_retrieval(alma: ALMA, clock: Clock) -> None:
    with_webhook(alma)
    ask_about(alma)
    clock.pass_days(31)
    alma.upkeep()
    assert WORD not in str(read_outbox(alma))


@pytest.mark.system
def test_a_question_that_waits_to_be_written_is_not_written_after_its_user_was_erased(
    alma: ALMA, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_webhook(alma)
    store = type(alma.engine.store)

    def refuse(*arguments: Any) -> None:
        raise BusyError("another process is writing")

    with monkeypatch.context() as patch:
        patch.setattr(store, "put", refuse)
        alma.retrieve(f"Where is {WORD}?", "dev", "ana")
    assert alma.engine.notes.waiting
    alma.erase_user("ana")
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    assert WORD not in str(list(alma.engine.store.scan(Where())))


def test_a_delivery_is_neither_exported_nor_imported(alma: ALMA) -> None:
    from alma.engine import transfer
    from alma.types.record import to_json

    with_webhook(alma)
    alma.add_domain_knowledge("dev", "hosts", "Staging is db1")
    lines = list(transfer.export_lines(alma.engine))
    assert not any('"delivery"' in line for line in lines)
    [delivery] = read_outbox(alma)
    forged = [lines[0], transfer._encode(to_json(delivery)), lines[-1]]
    with pytest.raises(ValidationError, match="unknown kind 'delivery'"):
        list(transfer.read_records(forged, "file"))
