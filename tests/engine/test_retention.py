"""Upkeep: what fades or exceeds a quota is archived, notes are pruned, and nothing depends on when it ran."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forked import Running, share_forks

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.context import Settings, UpkeepSettings
from alma.engine.evidence import memory_strength
from alma.engine.retention import UpkeepReport
from alma.stores.memory import MemoryStore
from alma.stores.sqlite import SQLiteStore
from alma.types.kinds import MEMORY_KINDS
from alma.types.query import Where
from alma.types.record import Record, Status

TASK = "Deploy the auth service"
Opener = Callable[..., ALMA]


def open_with(open_alma: Opener, **settings: Any) -> ALMA:
    return open_alma(settings=Settings(upkeep=UpkeepSettings(**settings)))


def read_all(alma: ALMA) -> dict[str, Record]:
    """Return everything that is stored, except when upkeep is due again."""
    return {one.id: one for one in alma.engine.store.scan(Where()) if one.kind != "marker"}


def read_active(alma: ALMA, kinds: Iterable[str] = MEMORY_KINDS) -> set[str]:
    where = Where(kinds=set(kinds), statuses={Status.ACTIVE})
    return {one.id for one in alma.engine.store.scan(where)}


def add_facts(alma: ALMA, count: int, source: str = "agent", domain: str = "ops") -> list[str]:
    facts = (f"Service {source}{domain}{number} listens on port {9000 + number}" for number in range(count))
    shared = {"type": "domain_knowledge", "agent": "dev", "domain": domain, "source": source}
    return [one.id for fact in facts for one in alma.add_many([{**shared, "fact": fact}])]


def add_many_facts(alma: ALMA, count: int) -> list[str]:
    """Add facts in one write."""
    shared = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "source": "agent"}
    return [one.id for one in alma.add_many([{**shared, "fact": f"Port {at} is open"} for at in range(count)])]


def talk(alma: ALMA, session: str, turns: int = 3) -> str:
    said = [{"speaker": "Ana" if at % 2 else "Bob", "text": f"{session} remark {at}"} for at in range(turns)]
    return alma.add_episode("dev", session, said).id


# -- what fades


class TestFading:
    def test_what_faded_is_archived_with_the_reason(self, alma: ALMA, clock: Any) -> None:
        outcome = alma.learn("dev", TASK, "success", "Blue-green deployment")
        clock.pass_days(212)
        report = alma.upkeep()
        assert report.ids["faded"] == [outcome.id]
        assert alma.get(outcome.id).status == "archived"
        line = alma.history(outcome.id)[-1]
        assert (line["verb"], line["why"], line["by"]) == ("archived", "unused for 212 days, strength 0.07", "upkeep")

    def test_what_a_person_stated_stays(self, alma: ALMA, clock: Any) -> None:
        [stated], [noted] = add_facts(alma, 1, "user_stated"), add_facts(alma, 1, "agent")
        rule = alma.add_rule("dev", "Use tabs instead of spaces")
        proposed = alma.add_rule("dev", "Use pnpm instead of npm", source="agent")
        accepted = alma.add_rule("dev", "Write tests before code", source="agent")
        alma.update(accepted.id, status="active")
        wish = alma.add_user_preference("ana", "style", "Short answers")
        clock.pass_days(30_000)
        assert set(alma.upkeep().ids["faded"]) == {noted, proposed.id}
        assert read_active(alma) == {stated, rule.id, accepted.id, wish.id}

    def test_use_keeps_a_memory(self, alma: ALMA, clock: Any) -> None:
        used, unused = add_facts(alma, 2)
        clock.pass_days(1_990)
        alma.record_usage([used, unused], [used])
        clock.pass_days(10)
        assert alma.upkeep().ids["faded"] == [unused]

    def test_a_restored_memory_is_left_alone(self, alma: ALMA, clock: Any) -> None:
        first, second = add_facts(alma, 2)
        clock.pass_days(2_000)
        assert alma.upkeep().counts["faded"] == 2
        alma.undo(first)
        assert read_active(alma) == {first, second}
        assert alma.upkeep().counts["faded"] == 0
        clock.pass_days(2_000)
        assert alma.upkeep().counts["faded"] == 2
        alma.update(first, status="active")
        assert alma.upkeep().counts["faded"] == 0
        assert read_active(alma) == {first}

    def test_what_is_stated_again_comes_back(self, alma: ALMA, clock: Any) -> None:
        fact = alma.add_domain_knowledge("dev", "ops", "Logs are on host nine", source="agent")
        for _ in range(3):
            alma.learn("dev", TASK, "success", "Blue-green deployment")
        [heuristic] = alma.list("heuristic")
        clock.pass_days(3_000)
        assert {fact.id, heuristic.id} <= set(alma.upkeep().ids["faded"])
        alma.add_domain_knowledge("dev", "ops", "Logs are on host nine", source="agent")
        for _ in range(3):
            alma.learn("dev", TASK, "success", "Blue-green deployment")
        assert {fact.id, heuristic.id} <= read_active(alma)

    def test_a_half_life_holds_for_a_kind_or_a_domain(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, half_life_days={"Deployment": 30, "outcome": 10_000})
        [fading], [lasting] = add_facts(alma, 1, domain="deployment"), add_facts(alma, 1, domain="people")
        outcome = alma.learn("dev", TASK, "success", "Blue-green deployment", task_type="deploy")
        clock.pass_days(200)
        assert alma.upkeep().ids["faded"] == [fading]
        assert read_active(alma) == {lasting, outcome.id}


class TestDecay:
    """Decay is a pure function of a record, the time and the settings."""

    @given(runs=st.lists(st.floats(0, 2_000), max_size=4), end=st.floats(0, 4_000))
    def test_strength_does_not_depend_on_when_upkeep_ran(self, runs: list[float], end: float) -> None:
        moment = start = datetime(2026, 1, 1, tzinfo=UTC)
        settings = Settings(upkeep=UpkeepSettings(max_memories=3))
        alma = ALMA(MemoryStore(), clock=lambda: moment, settings=settings)
        add_facts(alma, 3)
        alma.learn("dev", TASK, "success", "Blue-green deployment")
        final = start + timedelta(days=end)
        expected = {
            one.id: memory_strength(one, final, {}) for one in alma.engine.store.scan(Where(kinds=MEMORY_KINDS))
        }
        for days in sorted(runs):
            moment = start + timedelta(days=days)
            alma.upkeep()
        later = {one.id: memory_strength(one, final, {}) for one in alma.engine.store.scan(Where(kinds=MEMORY_KINDS))}
        assert later == expected

    @given(st.floats(0, 10_000), st.floats(0, 10_000), st.floats(0.01, 10_000))
    def test_strength_only_falls_while_nothing_happens(self, first: float, second: float, half_life: float) -> None:
        start = datetime(2026, 1, 1, tzinfo=UTC)
        alma = ALMA(MemoryStore(), clock=lambda: start)
        [record] = alma.engine.store.get(add_facts(alma, 1))
        early, late = (
            memory_strength(record, start + timedelta(days=one), {"ops": half_life}) for one in sorted((first, second))
        )
        assert early >= late >= 0


# -- quotas


class TestQuotas:
    def test_the_weakest_are_archived_until_the_quota_holds(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, max_memories=4)
        ids = add_facts(alma, 7)
        clock.pass_days(1)
        alma.record_feedback(ids[0], signal="thumbs_up")
        alma.record_feedback(ids[6], signal="thumbs_down")
        report = alma.upkeep()
        assert report.ids["over_quota"] == [ids[6], ids[1], ids[2]]
        assert read_active(alma) == {ids[0], *ids[3:6]}
        assert alma.history(ids[1])[-1]["why"] == "over the quota of 4 memories"
        assert alma.upkeep().counts["over_quota"] == 0

    def test_what_a_person_stated_goes_last(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, max_memories=2)
        stated = add_facts(alma, 3, "user_stated")
        clock.pass_days(40)
        noted = add_facts(alma, 2)
        assert set(alma.upkeep().ids["over_quota"]) == {*noted, stated[0]}
        assert read_active(alma) == {*stated[1:]}

    def test_outcomes_go_before_what_was_stated_and_their_results_stay_counted(
        self, open_alma: Opener, clock: Any
    ) -> None:
        alma = open_with(open_alma, max_memories=4)
        facts = add_facts(alma, 2)
        clock.pass_days(20)
        outcomes = [alma.learn("dev", "Deploy the shop", "success", "Blue-green").id for _ in range(6)]
        assert {*alma.upkeep().ids["over_quota"]} == {*outcomes[:5]}
        assert {*facts} <= read_active(alma)
        [heuristic] = alma.list("heuristic")
        assert heuristic.occurrence_count == 6

    def test_what_faded_does_not_count(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, max_memories=2)
        old = add_facts(alma, 2)
        clock.pass_days(3_000)
        add_facts(alma, 2, domain="new")
        for dry_run in (True, False):
            report = alma.upkeep(dry_run=dry_run)
            assert set(report.ids["faded"]) == {*old}
            assert report.counts["over_quota"] == 0

    def test_conversations_are_archived_with_their_turns_and_restored(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, max_conversations=1)
        old, new = talk(alma, "monday"), (clock.pass_days(2), talk(alma, "friday"))[1]
        assert alma.upkeep().ids["over_quota"] == [old]
        assert {one.split("_")[1] for one in read_active(alma, ["turn"])} == {new.removeprefix("epi_")}
        assert [one.text for one in alma.get(old).turns] == [f"monday remark {at}" for at in range(3)]  # type: ignore[attr-defined]
        alma.update(old, status="active")
        assert len(read_active(alma, ["turn"])) == 6


# -- notes


class TestNotes:
    def count_notes(self, alma: ALMA) -> int:
        return alma.get_stats()["retrieval_count"]

    def test_old_notes_are_deleted_unless_a_younger_outcome_needs_them(self, alma: ALMA, clock: Any) -> None:
        forgotten = alma.retrieve(TASK, "dev").retrieval_id
        needed = alma.retrieve(TASK, "dev").retrieval_id
        clock.pass_days(20)
        alma.learn("dev", TASK, "success", "Blue-green deployment", retrieval_id=needed)
        fresh = alma.retrieve(TASK, "dev").retrieval_id
        clock.pass_days(11)
        assert alma.upkeep().ids["notes"] == [forgotten]
        clock.pass_days(20)
        assert set(alma.upkeep().ids["notes"]) == {needed, fresh}
        assert self.count_notes(alma) == 0
        assert len(alma.list("outcome")) == 1

    def test_the_history_of_counts_is_deleted_only_when_asked(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma)
        [fact] = add_facts(alma, 1)
        alma.record_feedback(fact)
        alma.update(fact, fact="Service zero listens on port 1")
        clock.pass_days(40)
        assert alma.upkeep().counts["notes"] == 0
        alma.engine = replace(alma.engine, settings=Settings(upkeep=UpkeepSettings(history_days=30)))
        assert alma.upkeep().counts["notes"] == 1
        assert [one["verb"] for one in alma.history(fact)] == ["created", "edited"]

    def test_zero_days_keep_notes(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma, retrieval_days=0)
        alma.retrieve(TASK, "dev")
        clock.pass_days(9_000)
        assert alma.upkeep().counts["notes"] == 0


# -- runs


def fill(alma: ALMA, clock: Any) -> None:
    """Store something for each step that needs no model."""
    add_facts(alma, 4)
    add_facts(alma, 2, "user_stated")
    alma.retrieve(TASK, "dev")
    talk(alma, "monday")
    clock.pass_days(3_000)
    add_facts(alma, 5, domain="new")
    talk(alma, "friday")
    alma.retrieve(TASK, "dev")


class TestRuns:
    @pytest.fixture
    def filled(self, open_alma: Opener, clock: Any) -> ALMA:
        alma = open_with(open_alma, max_memories=3, max_conversations=1)
        fill(alma, clock)
        return alma

    def test_a_dry_run_changes_nothing_and_reports_what_the_real_one_does(self, filled: ALMA) -> None:
        before = list(filled.engine.store.scan(Where()))
        dry = filled.upkeep(dry_run=True)
        assert list(filled.engine.store.scan(Where())) == before
        real = filled.upkeep()
        assert (dry.ids, dry.counts) == (real.ids, real.counts)
        assert (dry.dry_run, real.dry_run) == (True, False)

    def test_a_dry_run_merges_nothing_with_what_a_quota_archives(self, open_alma: Opener) -> None:
        alma = open_with(open_alma, max_memories=1)
        shared = {"type": "domain_knowledge", "agent": "dev", "domain": "ops", "source": "agent"}
        alma.add_many([{**shared, "fact": fact} for fact in ("Logs are on host nine", "The logs are on host nine")])
        dry, real = alma.upkeep(dry_run=True), alma.upkeep()
        assert (dry.ids, dry.counts) == (real.ids, real.counts)
        assert (real.counts["over_quota"], real.counts["merged"]) == (1, 0)

    def test_the_counts_are_those_of_the_ids_and_of_what_changed(self, filled: ALMA) -> None:
        before = read_all(filled)
        report = filled.upkeep()
        assert report.counts == {name: len(ids) for name, ids in report.ids.items()}
        assert report.counts == {"notes": 1, "faded": 4, "over_quota": 5, "compressed": 0, "merged": 0, "read": 0}
        after = read_all(filled)
        gone = before.keys() - after.keys()
        archived = {id for id, one in after.items() if one.kind != "turn" and one.status is Status.ARCHIVED}
        assert gone == set(report.ids["notes"])
        assert archived == {*report.ids["faded"], *report.ids["over_quota"]}
        assert not report.problems

    def test_a_second_run_changes_nothing_more(self, filled: ALMA) -> None:
        filled.upkeep()
        before = read_all(filled)
        assert not any(filled.upkeep().counts.values())
        assert read_all(filled) == before

    def test_it_is_the_caller_upkeep_who_changes(self, filled: ALMA) -> None:
        [archived, *_] = filled.upkeep().ids["faded"]
        assert filled.history(archived)[-1]["by"] == "upkeep"

    def test_other_projects_are_left_alone(self, filled: ALMA) -> None:
        other = ALMA(filled.engine.store, HashEmbedder(), project_id="other", clock=filled.engine.clock)
        assert not any(other.upkeep().counts.values())

    def test_progress_is_reported(self, filled: ALMA) -> None:
        reports: list[tuple[int, int]] = []
        filled.upkeep(progress=lambda done, total: reports.append((done, total)))
        assert (4, 4) in reports
        assert all(0 < done <= total for done, total in reports)

    def test_what_stops_in_the_middle_is_finished_by_the_next_run(self, open_alma: Opener, clock: Any) -> None:
        alma = open_with(open_alma)
        ids = add_many_facts(alma, 600)
        clock.pass_days(3_000)

        def fail(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            alma.upkeep(progress=fail)
        rest = read_active(alma)
        assert 0 < len(rest) < len(ids)
        assert set(alma.upkeep().ids["faded"]) == rest
        assert not read_active(alma)


class TestWhenItIsDue:
    def test_it_runs_once_in_its_period(self, alma: ALMA, clock: Any) -> None:
        assert alma.upkeep(if_due=True).counts
        skipped = alma.upkeep(if_due=True)
        assert not skipped.counts
        assert skipped.skipped.startswith("not due")
        clock.pass_days(1)
        assert alma.upkeep(if_due=True).counts

    def test_it_runs_whenever_it_is_asked(self, alma: ALMA) -> None:
        assert alma.upkeep().counts
        assert alma.upkeep().counts
        assert not alma.upkeep(if_due=True).counts

    def test_a_dry_run_does_not_count(self, alma: ALMA) -> None:
        assert alma.upkeep(dry_run=True, if_due=True).counts
        assert alma.upkeep(if_due=True).counts

    def test_it_can_be_switched_off(self, open_alma: Opener) -> None:
        alma = open_with(open_alma, every_hours=0)
        assert "every_hours is 0" in alma.upkeep(if_due=True).skipped
        assert alma.upkeep().counts

    def test_a_killed_run_is_repeated_after_an_hour(self, alma: ALMA, clock: Any) -> None:
        add_facts(alma, 1)
        clock.pass_days(3_000)

        def fail(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            alma.upkeep(if_due=True, progress=fail)
        assert not alma.upkeep(if_due=True).counts
        clock.pass_days(1.1 / 24)
        assert alma.upkeep(if_due=True).counts

    def test_a_clock_that_was_wrong_does_not_stop_it(self, alma: ALMA, clock: Any) -> None:
        clock.pass_days(10_000)
        alma.upkeep(if_due=True)
        clock.pass_days(-10_000)
        assert alma.upkeep(if_due=True).counts


# -- processes

SCRIPT = """
import json, sys
from dataclasses import asdict
from datetime import UTC, datetime
from alma import ALMA
from alma.stores.sqlite import SQLiteStore

alma = ALMA(SQLiteStore(sys.argv[1]), project_id="test", clock=lambda: datetime(2040, 1, 1, tzinfo=UTC))
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(asdict(alma.upkeep(if_due=sys.argv[2] == "due"))), flush=True)
"""


def start(path: Path, mode: str) -> Running:
    process = share_forks().start(SCRIPT, path.parent, arguments=[str(path), mode], with_pipes=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.system
class TestProcesses:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with ALMA(
            SQLiteStore(tmp_path / "alma.db"), project_id="test", clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)
        ) as alma:
            add_many_facts(alma, 1_000)
        return tmp_path / "alma.db"

    def test_of_two_processes_only_one_runs_what_is_due(self, path: Path) -> None:
        processes = [start(path, "due") for _ in range(2)]
        answers = [process.communicate("\n")[0] for process in processes]
        assert sorted("not due" in answer for answer in answers) == [False, True]

    def test_two_processes_that_are_asked_archive_everything_once(self, path: Path) -> None:
        processes = [start(path, "asked") for _ in range(2)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            process.communicate()
            assert process.poll() == 0
        with ALMA(SQLiteStore(path), project_id="test") as alma:
            assert not read_active(alma)
            lines = [one for one in alma.engine.store.scan(Where(kinds={"change"})) if one.body["verb"] == "archived"]
            assert len(lines) == len({one.body["record"] for one in lines}) == 1_000

    @pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
    def test_a_run_that_was_killed_is_finished_by_the_next(self, path: Path) -> None:
        process = start(path, "asked")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        with ALMA(SQLiteStore(path), project_id="test", clock=lambda: datetime(2040, 1, 1, tzinfo=UTC)) as alma:
            deadline = time.monotonic() + 60
            while len(read_active(alma)) == 1_000:
                assert time.monotonic() < deadline
            process.send_signal(signal.SIGKILL)
            process.communicate()
            rest = read_active(alma)
            report: UpkeepReport = alma.upkeep()
            assert set(report.ids["faded"]) == rest
            records = [one for one in read_all(alma).values() if one.kind == "domain_knowledge"]
            assert {one.status for one in records} == {Status.ARCHIVED}
            assert asdict(report)["counts"]["faded"] == len(rest)
