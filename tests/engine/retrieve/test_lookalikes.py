"""Memories that seem to be about the same thing: the older one is marked and comes after the newest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from alma import ALMA
from alma.embedders.local import LocalEmbedder
from alma.engine.context import Settings
from alma.ports import PairScores
from alma.stores.memory import MemoryStore
from alma.types.query import Where
from alma.types.slice import MemorySlice


class Clock:
    now = datetime(2026, 1, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(days=10)
        return self.now


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def alma(embedder: LocalEmbedder) -> ALMA:
    return ALMA(MemoryStore(), embedder, clock=Clock())


def add_facts(alma: ALMA, *facts: str, user_id: str | None = None) -> list[str]:
    return [alma.add_domain_knowledge("dev", "ops", fact, user_id=user_id).id for fact in facts]


def marks(found: MemorySlice) -> dict[str, str]:
    return {one.fact: one.newer for one in found.domain_knowledge}


UPDATES = [
    ("The billing service runs on Postgres 14", "We moved the billing service to MySQL", "Which database has billing?"),
    ("Standup is at nine every morning", "Standup starts at half past ten now", "When is standup?"),
    ("Maya is on call this quarter", "Jonas took over on call from Maya this quarter", "Who is on call?"),
    ("Releases go out every Friday", "From now on releases go out on Tuesdays", "When do releases go out?"),
]
DIFFERENT = [
    ("The staging database is Postgres 14", "The production database is Postgres 15", "Which database is used?"),
    ("Anna's extension is 4411", "Ben's extension is 4412", "What is the extension?"),
    ("Deploys to staging happen on Fridays", "Deploys to production happen on Mondays", "When are deploys?"),
    ("The iOS app needs version 17", "The Android app needs version 14", "Which version does the app need?"),
    ("Frontend reviews need one approval", "Backend reviews need two approvals", "How many approvals are needed?"),
]


@pytest.mark.parametrize(("old", "new", "question"), UPDATES)
def test_the_older_comes_after_the_newer_and_names_it(alma: ALMA, old: str, new: str, question: str) -> None:
    _, newer = add_facts(alma, old, new)
    found = alma.retrieve(question, "dev")
    assert [one.fact for one in found.domain_knowledge] == [new, old], "nothing is removed"
    assert marks(found) == {new: "", old: newer}
    prompt = found.to_prompt()
    assert prompt.index(new) < prompt.index(old)
    assert "may be superseded by a newer one above" in prompt.partition(old)[2]


def test_the_explanation_says_that_a_newer_one_was_put_first(alma: ALMA) -> None:
    old, new, question = UPDATES[1]
    older, newer = add_facts(alma, old, new)
    reasons = {one.memory_id: one.reason for one in alma.retrieve(question, "dev").explain()}
    assert reasons[older].endswith(f"; may be superseded by the newer look-alike {newer}, which comes first")
    [lunch] = add_facts(alma, "Lunch is served at noon")
    reasons = {one.memory_id: one.reason for one in alma.retrieve("When is lunch?", "dev").explain()}
    assert "look-alike" not in reasons[lunch]


def test_a_newer_one_that_was_brought_along_says_so(alma: ALMA) -> None:
    older, newer = add_facts(alma, "Our office is on Harbour Street", "The office moved: we are in Mill Lane now")
    [explanation] = alma.retrieve("Harbour Street", "dev", top_k=1).explain()
    assert explanation.memory_id == newer
    assert explanation.reason.endswith(f"; comes first as the newer look-alike of {older}")


@pytest.mark.parametrize(("old", "new", "question"), DIFFERENT)
def test_facts_about_different_things_are_not_marked(alma: ALMA, old: str, new: str, question: str) -> None:
    add_facts(alma, old, new)
    assert marks(alma.retrieve(question, "dev")) == {old: "", new: ""}


def test_memories_of_others_do_not_count(alma: ALMA) -> None:
    old, new, question = UPDATES[0]
    add_facts(alma, old)
    add_facts(alma, new, user_id="ana")
    assert marks(alma.retrieve(question, "dev", user_id="ana")) == {old: "", new: ""}


def test_with_different_keys_they_are_different(alma: ALMA) -> None:
    for attribute, fact in (("primary", "Billing data is kept in Oslo"), ("backup", "Billing data is kept in Bergen")):
        alma.add_domain_knowledge("dev", "ops", fact, subject="billing", attribute=attribute)
    assert set(marks(alma.retrieve("Where is billing data kept?", "dev")).values()) == {""}


def test_the_newest_is_brought_along_though_it_does_not_match(alma: ALMA) -> None:
    _, newer = add_facts(alma, "Our office is on Harbour Street", "The office moved: we are in Mill Lane now")
    found = alma.retrieve("Harbour Street", "dev", top_k=1)
    assert [one.id for one in found.domain_knowledge] == [newer]


def test_asked_about_the_past_the_old_one_is_not_out_of_date(alma: ALMA) -> None:
    add_facts(alma, "Standup is at nine every morning")
    for _ in range(12):
        alma.engine.clock()
    add_facts(alma, "Standup starts at half past ten now")
    found = alma.retrieve("When was standup in February 2026?", "dev")
    assert marks(found)["Standup is at nine every morning"] == ""


def test_preferences_rules_and_warnings_are_marked_as_well(alma: ALMA) -> None:
    for text in ("Answer in long paragraphs", "Answer in short paragraphs, three lines at most"):
        alma.add_user_preference("ana", "style", text)
    for text in ("Squash commits before merging", "Do not squash commits before merging any more"):
        alma.add_anti_pattern("dev", text, "it failed")
    found = alma.retrieve("Merge the commits of the branch", "dev", user_id="ana")
    assert [bool(one.newer) for one in found.preferences] == [False, True]
    assert [bool(one.newer) for one in found.anti_patterns] == [False, True]


class CountingEmbedder(LocalEmbedder):
    """The shipped model, which remembers the pairs that it was asked to read."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []

    def read_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[PairScores]:
        self.asked += pairs
        return super().read_pairs(pairs)


class TestStoredPairs:
    def test_upkeep_reads_the_pairs_of_new_memories_once(self) -> None:
        store, clock, embedder = MemoryStore(), Clock(), CountingEmbedder()
        old, new, question = UPDATES[1]
        alma = ALMA(store, embedder, clock=clock)
        [older, newer] = add_facts(alma, old, new)
        assert alma.upkeep(dry_run=True).ids["read"] == [older, newer]
        assert not list(store.scan(Where(kinds={"likeness"})))
        seen: list[tuple[int, int]] = []
        assert alma.upkeep(progress=lambda done, total: seen.append((done, total))).ids["read"] == [older, newer]
        assert [set(one.links) for one in store.scan(Where(kinds={"likeness"}))] == [{older, newer}]
        assert (2, 2) in seen
        embedder.asked.clear()
        assert alma.upkeep().counts["read"] == 0
        assert marks(alma.retrieve(question, "dev")) == {new: "", old: newer}
        assert (old, new) not in embedder.asked
        [later] = add_facts(alma, "The office plants are watered on Mondays")
        assert alma.upkeep().ids["read"] == [later]

    def test_a_pair_is_read_once_for_all_processes(self) -> None:
        store, clock = MemoryStore(), Clock()
        old, new, question = UPDATES[1]
        first, second = CountingEmbedder(), CountingEmbedder()
        alma = ALMA(store, first, clock=clock)
        [older, newer] = add_facts(alma, old, new)
        assert marks(alma.retrieve(question, "dev")) == {new: "", old: newer}
        assert (old, new) in first.asked
        again = ALMA(store, second, clock=clock)
        assert marks(again.retrieve(question, "dev")) == {new: "", old: newer}
        assert (old, new) not in second.asked
        changed = "Standup is at nine sharp every morning"
        again.update(older, {"fact": changed})
        second.asked.clear()
        again.retrieve(question, "dev")
        assert (new, changed) in second.asked, "a changed text is read again, and is the newer one now"

    def test_nothing_of_a_deleted_memory_is_kept(self, alma: ALMA) -> None:
        old, new, question = UPDATES[1]
        older, _ = add_facts(alma, old, new)
        alma.retrieve(question, "dev")
        everything = Where(kinds={"likeness"})
        assert [older in one.links for one in alma.engine.store.scan(everything)] == [True]
        alma.delete(older)
        assert not list(alma.engine.store.scan(everything))

    def test_without_time_to_read_the_newer_one_comes_first_without_a_mark(self, embedder: LocalEmbedder) -> None:
        alma = ALMA(MemoryStore(), embedder, clock=Clock(), settings=Settings(pair_reading_ms=0))
        old, new, question = UPDATES[1]
        add_facts(alma, old, new)
        assert list(marks(alma.retrieve(question, "dev")).items()) == [(new, ""), (old, "")]


NAMES = (
    *("gateway", "ledger", "mailer", "search", "avatar", "invoice", "session", "report", "catalog", "webhook"),
    *("billing", "shipping", "quota", "metrics", "tracing", "profile", "upload", "preview", "archive", "ranking"),
    *("coupon", "refund", "tax", "login", "export", "import", "backup", "survey", "chat", "calendar"),
    *("map", "voice", "video", "image", "font", "theme", "layout", "plugin", "widget", "badge"),
)


def test_in_a_dense_neighbourhood_only_what_stands_out_is_marked(alma: ALMA) -> None:
    for number, name in enumerate(NAMES):
        add_facts(alma, f"Port 80{number:02} belongs to the {name} service in the cluster")
    old, new, question = UPDATES[1]
    _, newer = add_facts(alma, old, new)
    assert set(marks(alma.retrieve("Which port belongs to the tracing service?", "dev")).values()) == {""}
    assert marks(alma.retrieve(question, "dev")) == {new: "", old: newer}


class TestKeys:
    def test_a_fact_with_the_same_key_replaces_the_old_one(self, alma: ALMA) -> None:
        for fact in ("Billing runs on Postgres", "Billing runs on MySQL"):
            alma.add_domain_knowledge("dev", "ops", fact, subject="billing", attribute="database")
        assert marks(alma.retrieve("Which database has billing?", "dev")) == {"Billing runs on MySQL": ""}

    def test_asked_in_the_words_of_the_old_fact_the_new_one_is_found(self, alma: ALMA) -> None:
        for fact in ("Our headquarters are in Lisbon", "Everybody sits in Berlin"):
            alma.add_domain_knowledge("dev", "ops", fact, subject="company", attribute="seat")
        found = alma.retrieve("Where in Lisbon are the headquarters?", "dev")
        assert [one.fact for one in found.domain_knowledge] == ["Everybody sits in Berlin"]

    def test_asked_about_the_past_the_replaced_fact_is_found(self, alma: ALMA) -> None:
        for fact in ("Standup is at nine", "Standup is at eleven"):
            alma.add_domain_knowledge("dev", "ops", fact, subject="standup", attribute="time")
            for _ in range(12):
                alma.engine.clock()
        found = alma.retrieve("When was standup in February 2026?", "dev")
        assert "Standup is at nine" in marks(found)


class TestStanding:
    def test_rules_are_in_the_prompt_within_a_budget_without_matching(self, alma: ALMA) -> None:
        rules = [
            "Never push to main",
            "Use pnpm",
            "Write tests first",
            "Sign commits",
            "Ask before deleting",
            "Use UTC",
        ]
        for rule in rules:
            alma.add_rule("dev", rule)
        found = alma.retrieve("What is the capital of France?", "dev")
        assert not list(found), "what does not match is told apart"
        assert len(found.standing_rules) == 5
        assert sum(rule in found.to_prompt() for rule in rules) == 5
        why = alma.explain(found.standing_rules[0].id, "What is the capital of France?", "dev")
        assert (why.retrieved, why.rank, why.reason) == (True, None, "it is shown whatever the task is")

    def test_a_rule_that_matches_is_no_standing_one(self, alma: ALMA) -> None:
        alma.add_rule("dev", "Never push to main")
        found = alma.retrieve("Push the fix to the main branch", "dev")
        assert [one.rule for one in found.rules] == ["Never push to main"]
        assert not found.standing_rules

    def test_preferences_say_whether_they_match(self, alma: ALMA) -> None:
        alma.add_user_preference("ana", "food", "I am a vegetarian")
        alma.add_user_preference("ana", "code", "Indent Python with four spaces")
        found = alma.retrieve("Indent this Python file", "dev", user_id="ana")
        standing = {one.memory_id: one.standing for one in found.explain()}
        assert [standing[one.id] for one in sorted(found.preferences, key=lambda one: one.category)] == [False, True]


class TestTasks:
    def test_another_action_on_the_same_thing_is_another_task(self, alma: ALMA) -> None:
        for _ in range(3):
            alma.learn("dev", "Deploy auth", "success", "Blue-green switch")
        assert alma.retrieve("Deploy auth", "dev").heuristics
        found = alma.retrieve("Why is auth slow?", "dev")
        assert not list(found)

    def test_a_lesson_is_labelled_by_one_of_its_tasks(self, alma: ALMA) -> None:
        for name in ("auth", "billing", "search"):
            task = f"Deploy the {name} service to production"
            alma.learn("dev", task, "success", "Blue-green switch", task_type="deploy")
        [lesson] = alma.retrieve("Deploy the login service", "dev").heuristics
        assert lesson.condition == "Deploy the billing service to production"

    def test_other_wordings_are_linked_and_counted_apart(self, alma: ALMA) -> None:
        for _ in range(3):
            alma.learn("dev", "Deploy auth", "success", "Run the tests before deploying")
        for outcome in ("success", "failure"):
            alma.learn("dev", "Deploy auth", outcome, "Execute the test suite prior to the deployment")
        found = alma.retrieve("Deploy auth", "dev")
        [lesson] = found.heuristics
        assert (lesson.success_count, lesson.occurrence_count) == (3, 3)
        [similar] = lesson.similar
        other = "Execute the test suite prior to the deployment"
        assert (similar.strategy, similar.success_count, similar.occurrence_count) == (other, 1, 2)
        assert f"Similar: {other} (worked 1 of 2)" in found.to_prompt()

    def test_the_task_type_is_a_filter(self, alma: ALMA) -> None:
        for task_type, strategy in (("deploy", "Blue-green switch"), ("test", "Run the smoke tests first")):
            for _ in range(3):
                alma.learn("dev", "Ship the auth service", "success", strategy, task_type=task_type)
        found = alma.retrieve("Ship the auth service", "dev", task_type="test")
        assert [one.strategy for one in found.heuristics] == ["Run the smoke tests first"]
        assert {one.task_type for one in found.outcomes} == {"test"}


class TestLanguages:
    """The embedder knows English only; elsewhere words decide."""

    @pytest.mark.parametrize(
        ("facts", "question", "answer", "unrelated"),
        [
            (
                ["服务器每天凌晨三点备份", "会议室在二楼东侧", "传感器的校准周期是六个月", "午餐在十二点半开始"],
                "传感器多久校准一次？",
                "传感器的校准周期是六个月",
                "哪首歌最好听",
            ),
            (
                ["バックアップは毎晩三時に実行される", "会議室は二階にある", "センサーの校正は半年ごとに行う"],
                "センサーの校正はいつ行いますか",
                "センサーの校正は半年ごとに行う",
                "好きな映画は何ですか",
            ),
            (
                [
                    "Las copias de seguridad se hacen cada noche a las tres",
                    "La sala de reuniones está en el segundo piso",
                    "Los sensores se calibran cada seis meses en el laboratorio",
                    "El almuerzo empieza a las doce y media en la cantina",
                ],
                "¿Cada cuántos meses calibramos los sensores nuevos?",
                "Los sensores se calibran cada seis meses en el laboratorio",
                "¿Qué película vimos ayer?",
            ),
        ],
    )
    def test_it_finds_the_fact_and_keeps_quiet_otherwise(
        self, alma: ALMA, facts: list[str], question: str, answer: str, unrelated: str
    ) -> None:
        add_facts(alma, *facts)
        found = alma.retrieve(question, "dev").domain_knowledge
        assert found[0].fact == answer
        assert len(found) < len(facts)
        assert not alma.retrieve(unrelated, "dev").domain_knowledge
