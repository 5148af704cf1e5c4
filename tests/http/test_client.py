"""A memory that is served elsewhere behaves as one that is open here."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, is_typeddict

import httpx
import pytest
from tests.api.samples import World

from alma import ALMA, AsyncALMA
from alma import remote as remote_module
from alma.engine.context import Settings
from alma.engine.retention import Forgotten
from alma.errors import (
    ALMAError,
    BusyError,
    ConfigError,
    MissingExtraError,
    NotFoundError,
    ScopeError,
    StorageError,
    ValidationError,
)
from alma.operations import operations
from alma.remote import RemoteALMA
from alma.schema import decode, plain
from alma.types.kinds import DomainKnowledge, Outcome, Result
from alma.types.slice import MemorySlice

from .conftest import HOST, Site, Within
from .samples import OVER_HTTP, order

pytestmark = pytest.mark.system


@pytest.fixture
def remote(site: Site) -> Iterator[RemoteALMA]:
    with ALMA.connect(f"https://{HOST}", site.secrets["admin"], transport=Within(site)) as made:
        yield made


# -- the same methods


def test_an_erased_user_comes_with_the_proof(remote: RemoteALMA) -> None:
    remote.add_user_preference("ana", "tone", "Answers with many footnotes")
    erased = remote.erase_user("ana")
    assert erased == {"user_preference": 1}
    assert (erased.proof.records, erased.proof.bytes, erased.proof.left) == (0, 0, [])  # type: ignore[attr-defined]


def test_it_has_the_methods_of_a_memory_that_is_open_here() -> None:
    left_out = {"engine", "model", "from_config", "quickstart", "connect", "reindex", "vacuum"}
    for name, method in inspect.getmembers(ALMA):
        if name.startswith("_") or name in left_out:
            continue
        ours = getattr(RemoteALMA, name)
        if callable(method):
            assert inspect.signature(ours) == inspect.signature(method), name


def test_what_is_not_there_is_told(remote: RemoteALMA) -> None:
    with pytest.raises(AttributeError, match="a remote memory has no"):
        remote.engine  # noqa: B018 - asking for it is the test
    for upkeep in (remote.reindex, remote.vacuum):
        with pytest.raises(ConfigError, match=f"a remote memory cannot be .*run `alma {upkeep.__name__}`"):
            upkeep()


def test_it_learns_from_messages(remote: RemoteALMA) -> None:
    learned = remote.learn_from("I moved to Porto and now work for Galp. Our frogs sing on Mondays.", user_id="sam")
    assert [one.fact for one in learned.domain_knowledge] == ["The user lives in Porto", "The user works at Galp"]
    assert learned.skipped == ["'Our frogs sing on Mondays.': not understood"]
    again = asyncio.run(AsyncALMA(remote).learn_from("I moved to Porto and now work for Galp.", user_id="sam"))
    assert (again.new, again.known) == (0, 2)


def test_an_earlier_name_of_an_operation_works(remote: RemoteALMA) -> None:
    learned = remote.learn_from_conversation("I prefer tabs over spaces.", "dev", user_id="ana")
    assert [one.preference for one in learned.user_preferences] == ["The user prefers tabs over spaces"]
    answer = remote.post("learn_from_conversation", {"messages": "I prefer tabs over spaces.", "user_id": "ana"})
    assert answer["known"] == 1


def test_operations_take_arguments_by_place(remote: RemoteALMA) -> None:
    item = remote.create_work_item(title="Rotate the keys")
    assert remote.update_progress(item.id, "done").status == "done"
    with pytest.raises(ValidationError, match="update_progress: too many arguments, or one was passed twice"):
        remote.update_progress(item.id, item_id=item.id)


def test_a_closed_one_says_so(site: Site) -> None:
    remote = ALMA.connect(f"https://{HOST}", site.secrets["admin"], transport=Within(site))
    assert remote.list() == []
    remote.close()
    with pytest.raises(StorageError, match="this memory is closed; connect again with ALMA.connect"):
        remote.list()


def test_it_learns_and_retrieves(remote: RemoteALMA, site: Site) -> None:
    before = remote.retrieve("Deploy the auth service", "dev")
    assert isinstance(before, MemorySlice)
    assert (len(before), before.to_prompt()) == (0, "")
    for _ in range(3):
        made = remote.learn("dev", "Deploy the auth service", "success", "Blue-green deployment", duration_ms=12)
    assert isinstance(made, Outcome)
    assert made.success
    assert made == site.alma.get(made.id)
    found = remote.retrieve("Deploy the auth service", "dev")
    local = site.alma.retrieve("Deploy the auth service", "dev")
    assert [one.id for one in found] == [one.id for one in local]
    assert found.to_prompt() == local.to_prompt()
    assert found.to_prompt(80) == local.to_prompt(80)
    assert found.heuristics[0].success_rate == 1.0
    assert len(found.explain()) == len(found)
    assert str(found.explain()[0]).startswith(str(local.explain()[0]).partition(":")[0])
    assert found.retrieval_id
    remote.learn("dev", "Deploy the auth service", "success", "Blue-green deployment", retrieval_id=found.retrieval_id)


def test_a_progressive_retrieval_stays_so(remote: RemoteALMA, site: Site) -> None:
    remote.add_domain_knowledge("dev", "deployment", "The deploy window is 9 to 17 h")
    asked = {"task": "When is the deploy window?", "agent": "dev", "progressive": True}
    assert remote.retrieve(**asked).to_prompt() == site.alma.retrieve(**asked).to_prompt() != ""


def test_a_prompt_names_the_owner_of_another_users_memory(remote: RemoteALMA, site: Site) -> None:
    site.alma.engine = replace(site.alma.engine, settings=Settings(share_between_users=True))
    remote.add_user_preference("ana", "food", "Lunch without mushrooms")
    theirs = remote.retrieve("What does Ana want for lunch?", "dev", "ben").to_prompt()
    assert theirs.startswith("### Preferences of other users\n- ana prefers: Lunch without mushrooms")
    assert "ana prefers" not in remote.retrieve("What does Ana want for lunch?", "dev", "ana").to_prompt()


def test_all_that_is_told_comes_back_as_it_is_held(remote: RemoteALMA, site: Site) -> None:
    made = [
        remote.add_user_preference("ana", "style", "Short answers", tags=("a", "b")),
        remote.add_domain_knowledge("dev", "deployment", "Staging is db2", metadata={"n": [1, {"x": None}]}),
        remote.add_heuristic("dev", "Testing forms", "Empty fields first"),
        remote.add_anti_pattern("dev", "Deploy on Friday", "Nobody is there", "Deploy on Monday"),
        remote.add_rule("dev", "Use pnpm instead of npm", why="It is what we use"),
        remote.add_episode(
            "dev", "s1", [{"speaker": "Ana", "text": "It moves to Friday.", "at": datetime(2026, 5, 1, tzinfo=UTC)}]
        ),
        *remote.add_many([{"type": "domain_knowledge", "agent": "dev", "domain": "d", "fact": "One more"}]),
        *remote.add_episodes([{"agent": "dev", "session_id": "s2", "turns": [{"speaker": "Bo", "text": "Done."}]}]),
        *remote.learn_many([{"agent": "dev", "task": "T", "outcome": "failure", "strategy_used": "S"}]),
    ]
    for one in made:
        assert type(remote.get(one.id)) is type(one)
        assert remote.get(one.id) == site.alma.get(one.id)
    assert remote.get(made[5].id).turns[0].said_at == datetime(2026, 5, 1, tzinfo=UTC)
    assert made[-1].outcome is Result.FAILURE
    assert {one.id for one in remote.list(status=None, limit=100)} == {one.id for one in made}
    assert [type(one) for one in remote.list("domain_knowledge")] == [DomainKnowledge, DomainKnowledge]


def test_single_memories(remote: RemoteALMA) -> None:
    made = remote.add_domain_knowledge("dev", "deployment", "Staging is db2")
    changed = remote.update(made.id, fact="Staging is db3", tags=["db"])
    assert isinstance(changed, DomainKnowledge)
    assert (changed.fact, changed.tags) == ("Staging is db3", ("db",))
    [change] = [one for one in remote.history(made.id) if one["verb"] == "edited"]
    assert isinstance(change["at"], datetime)
    assert change["before"]["fact"] == "Staging is db2"
    remote.update(made.id, status="archived")
    assert remote.list() == []
    assert [one.id for one in remote.list(status=None)] == [made.id]
    remote.delete(made.id)
    with pytest.raises(NotFoundError, match=made.id):
        remote.get(made.id)


def test_feedback_and_upkeep(remote: RemoteALMA) -> None:
    made = remote.add_domain_knowledge("dev", "deployment", "Staging is db2")
    assert remote.record_usage([made.id, "m1"], [made.id]).unknown == ("m1",)
    assert remote.record_feedback(made.id, signal="thumbs_up").recorded == (made.id,)
    gone = remote.forget(older_than_days=0, dry_run=True)
    assert isinstance(gone, Forgotten)
    assert (gone, gone.ids) == (0, ())
    assert remote.get_stats()["by_type"]["domain_knowledge"] == 1
    assert remote.project_id == "app"


def test_a_function_is_learned_from(remote: RemoteALMA) -> None:
    @remote.learns("dev", task="Divide {a}", strategy="Just do it")
    def divide(a: int, b: int) -> float:
        """Divide two numbers."""
        return a / b

    assert divide(4, 2) == 2
    with pytest.raises(ZeroDivisionError):
        divide(4, 0)
    held = remote.list("outcome")
    assert sorted(str(one.outcome) for one in held if isinstance(one, Outcome)) == ["failure", "success"]


def test_any_iterable_of_names_will_do(remote: RemoteALMA) -> None:
    made = remote.add_domain_knowledge("dev", "d", "Fact", tags=(name for name in ("x", "y")))
    assert made.tags == ("x", "y")
    since = datetime.now(UTC) - timedelta(days=1)
    assert len(remote.retrieve("Fact", "dev", types={"domain_knowledge"}, since=since)) == 1


def test_another_project_is_named_when_connecting(site: Site) -> None:
    with ALMA.connect(f"https://{HOST}", site.secrets["admin"], "Köln West", transport=Within(site)) as other:
        other.add_domain_knowledge("dev", "d", "Far away")
        assert other.project_id == "Köln West"
        assert other.get_stats()["project_id"] == "Köln West"
    assert site.alma.list() == []


# -- every operation


def test_every_operation_is_a_method_and_gives_what_it_gives_here(remote: RemoteALMA, prepared: World) -> None:
    for name in order():
        operation = operations()[name]
        made = remote.call(name, **OVER_HTTP[name](prepared))
        if isinstance(operation.returns, type):
            is_mapping = operation.returns.__name__ == "Stats" or is_typeddict(operation.returns)
            assert isinstance(made, dict if is_mapping else operation.returns), name
        assert json.loads(json.dumps(plain(made))) == plain(decode(operation.returns, plain(made))), name
    item = remote.create_work_item(title="Fix the login bug", tests=["login works"])
    assert item.tests == ("login works",)
    with pytest.raises(ValidationError, match="unknown operation"):
        remote.call("dance")


@pytest.mark.parametrize("name", order())
def test_what_is_decoded_is_what_was_written(name: str, site: Site, prepared: World) -> None:
    from tests.api.samples import BEFORE

    for one in [BEFORE[name], name] if name in BEFORE else [name]:
        answer = operations()[one].call(site.alma, OVER_HTTP[one](prepared))
    again = decode(operations()[name].returns, json.loads(json.dumps(plain(answer))))
    assert plain(again) == plain(answer)
    assert type(again) is type(answer)


# -- errors


def test_errors_are_the_same(remote: RemoteALMA, site: Site) -> None:
    calls: list[Callable[[Any], Any]] = [
        lambda alma: alma.get("nobody"),
        lambda alma: alma.learn("dev", "Task", "brilliant", "S"),
        lambda alma: alma.learn("dev", "", "success", "S"),
        lambda alma: alma.list("dream"),
        lambda alma: alma.retrieve("T", "dev", top_k=0),
        lambda alma: alma.update("nobody"),
        lambda alma: alma.learn_many("nonsense"),
        lambda alma: alma.learn_many([{"agent": "dev"}]),
    ]
    for call in calls:
        with pytest.raises(ALMAError) as here:
            call(site.alma)
        with pytest.raises(ALMAError) as there:
            call(remote)
        assert type(there.value) is type(here.value)


def test_a_token_that_may_not_is_told_so(site: Site) -> None:
    secret = site.token("reader", "read")
    with ALMA.connect(f"https://{HOST}", secret, transport=Within(site)) as alma:
        assert alma.list() == []
        with pytest.raises(ScopeError, match="'reader' has the scope read"):
            alma.learn("dev", "T", "success", "S")
    with (
        ALMA.connect(f"https://{HOST}", "alma_wrong", transport=Within(site)) as alma,
        pytest.raises(ConfigError, match="token"),
    ):
        alma.list()


@pytest.mark.parametrize("value", [float("nan"), b"bytes", {1: object()}, "\ud800"])
def test_what_is_no_json_is_refused_here(remote: RemoteALMA, value: Any) -> None:
    with pytest.raises(ValidationError):
        remote.add_domain_knowledge("dev", "d", "Fact", metadata={"x": value})


@pytest.mark.parametrize(
    "url",
    [
        *("", "memory.example.org", "ftp://x", "http://memory.example.org", "https://", "http://[bad"),
        *("http://127.0.0.1:x", "http://127.0.0.1:99999", "https://a\nb.example"),
    ],
)
def test_an_address_that_will_not_do(url: str) -> None:
    with pytest.raises(ConfigError):
        ALMA.connect(url, "alma_token")


def test_readable_only_on_ones_own_word() -> None:
    ALMA.connect("http://memory.example.org", "alma_token", insecure=True).close()
    ALMA.connect("http://127.0.0.1:9", "alma_token").close()
    with pytest.raises(ConfigError, match="token"):
        ALMA.connect("http://127.0.0.1:9", "")


def test_certificates_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("none")
    for name in ("ca.pem", "missing.pem"):
        with pytest.raises(ConfigError, match=name):
            ALMA.connect("https://memory.example.org", "alma_token", ca_file=str(tmp_path / name))


def test_without_httpx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[http\]'"):
        ALMA.connect("http://127.0.0.1:9", "alma_token")


# -- when the line is bad


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "_PAUSE", 0.0)
    monkeypatch.setattr(remote_module, "_LONGEST_PAUSE", 0.0)


def failing(site: Site, *troubles: Any) -> tuple[RemoteALMA, list[str]]:
    """A client whose first requests end in trouble: an exception, or a status that is answered."""
    within, left, asked = Within(site), list(troubles), []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        trouble = left.pop(0) if left else None
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is not None:
            status, kind = trouble
            told = {"type": f"urn:alma:error:{kind}", "detail": "not now", "request_id": "x"}
            return httpx.Response(status, json=told, headers={"retry-after": "1"})
        return within.handle_request(request)

    made = ALMA.connect(f"https://{HOST}", site.secrets["admin"], transport=httpx.MockTransport(handle))
    return made, asked


LEARNED = ("dev", "Task", "success", "Way")
BROKEN = [httpx.ReadError("gone"), httpx.RemoteProtocolError("gone"), httpx.ReadTimeout("late")]


@pytest.mark.usefixtures("hasty")
def test_what_was_not_sent_is_sent_again(site: Site) -> None:
    remote, asked = failing(site, httpx.ConnectError("refused"), httpx.ConnectTimeout("late"))
    remote.learn(*LEARNED)
    assert len(asked) == 3
    assert len(site.alma.list("outcome")) == 1


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("trouble", BROKEN, ids=lambda one: type(one).__name__)
def test_what_may_have_been_done_is_not_done_twice(site: Site, trouble: Exception) -> None:
    remote, asked = failing(site, trouble)
    with pytest.raises(StorageError, match="may or may not have been processed"):
        remote.learn(*LEARNED)
    assert len(asked) == 1


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("trouble", BROKEN, ids=lambda one: type(one).__name__)
def test_what_may_be_done_twice_is_tried_again(site: Site, trouble: Exception) -> None:
    remote, asked = failing(site, trouble, trouble)
    assert remote.list() == []
    assert len(asked) == 3


@pytest.mark.usefixtures("hasty")
def test_who_was_too_fast_tries_again(site: Site) -> None:
    remote, asked = failing(site, (429, "RateLimited"), (429, "Overloaded"))
    remote.learn(*LEARNED)
    assert len(asked) == 3


@pytest.mark.usefixtures("hasty")
def test_a_busy_store_is_asked_again_only_for_what_may_be_done_twice(site: Site) -> None:
    remote, asked = failing(site, (503, "BusyError"))
    assert remote.list() == []
    assert len(asked) == 2
    remote, asked = failing(site, (503, "BusyError"))
    with pytest.raises(BusyError):
        remote.learn(*LEARNED)
    assert len(asked) == 1


@pytest.mark.usefixtures("hasty")
def test_it_gives_up_in_the_end(site: Site) -> None:
    remote, asked = failing(site, *[httpx.ConnectError("refused")] * 9)
    with pytest.raises(StorageError, match="cannot be reached"):
        remote.list()
    assert len(asked) == 4


def test_another_service_is_recognised(site: Site) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text="<html>"))
    remote = ALMA.connect(f"https://{HOST}", "alma_x", transport=transport)
    with pytest.raises(StorageError, match="not like an alma server"):
        remote.list()


def test_the_quick_start_runs_against_a_served_memory(served: Any) -> None:
    """As people find it in the product's description, but for the line that opens the memory."""
    from tests.test_quick_starts import FIX_THE_LOGIN_BUG

    opening = 'alma = ALMA.from_config(".alma/config.yaml")'
    assert opening in FIX_THE_LOGIN_BUG
    code = FIX_THE_LOGIN_BUG.replace(opening, "alma = ALMA.connect(URL, TOKEN)")
    prompts = []
    for _ in range(4):
        known: dict[str, Any] = {"URL": served.url, "TOKEN": served.token, "print": prompts.append}
        exec(code, known)
        known["alma"].close()
    assert "Cleared session cache" not in prompts[0]
    assert "Cleared session cache" in prompts[1]
    assert "worked 3 of 3, last" in prompts[3]


# -- repeated calls


DEPLOYED = {"agent": "dev", "task": "Deploy", "outcome": "success", "strategy_used": "Blue-green deployment"}


def test_a_repeated_key_is_counted_once(remote: RemoteALMA, site: Site) -> None:
    made = remote.learn(**DEPLOYED, idempotency_key="job-1")
    assert remote.learn(**DEPLOYED, idempotency_key="job-1") == made
    assert remote.learn_many([{**DEPLOYED, "idempotency_key": "job-1"}]) == [made]
    assert site.post("learn", {**DEPLOYED, "idempotency_key": "job-1"}).json()["id"] == made.id
    with pytest.raises(ValidationError, match="other arguments"):
        remote.learn(**{**DEPLOYED, "task": "Another"}, idempotency_key="job-1")
    assert len(site.alma.list("outcome")) == 1


@pytest.mark.parametrize(("key", "sent"), [(None, 1), ("job-1", 2)])
def test_only_a_call_with_a_key_is_sent_again(
    site: Site, monkeypatch: pytest.MonkeyPatch, key: str | None, sent: int
) -> None:
    """The answer got lost: without a key nobody can know whether the call was counted."""

    class Lossy(Within):
        calls = 0

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            Lossy.calls += 1
            if Lossy.calls == 1:
                raise httpx.ReadError("the connection broke")
            return answer

    monkeypatch.setattr(remote_module, "_PAUSE", 0.0)
    with ALMA.connect(f"https://{HOST}", site.secrets["admin"], transport=Lossy(site)) as lossy:
        if key is None:
            with pytest.raises(StorageError, match="may or may not have been processed"):
                lossy.learn(**DEPLOYED)
        else:
            lossy.learn(**DEPLOYED, idempotency_key=key)
    assert Lossy.calls == sent
    assert len(site.alma.list("outcome")) == 1


def test_the_async_face_works_over_the_remote_client(remote: RemoteALMA, site: Site) -> None:
    async def work() -> MemorySlice:
        async with AsyncALMA(remote) as face:
            empty = await face.retrieve("Deploy", "dev")
            assert not empty
            assert (empty.to_prompt(), bool(empty.retrieval_id)) == ("", True)
            for number in range(3):
                await face.learn(**DEPLOYED, retrieval_id=empty.retrieval_id, idempotency_key=f"job-{number}")
            assert (await face.get_stats())["by_type"]["outcome"] == 3
            assert (face.project_id, face.model) == ("app", None)

            @face.learns("dev", task="Deploy", strategy="Canary")
            async def deploy() -> str:
                return "done"

            assert await deploy() == "done"
            return await face.retrieve("Deploy", "dev")

    assert asyncio.run(work()).heuristics
    assert len(site.alma.list("outcome")) == 4


def test_a_key_replaces_the_older_value(remote: RemoteALMA) -> None:
    old = remote.add_domain_knowledge("dev", "api", "It listens on 80", subject="gateway", attribute="port")
    new = remote.add_domain_knowledge("dev", "api", "It listens on 81", subject="gateway", attribute="port")
    assert (new.subject, new.attribute) == ("gateway", "port")
    assert remote.get(old.id).status == "superseded"
    remote.add_user_preference("zoe", "style", "Indent with tabs", attribute="indentation")
    kept = remote.add_user_preference("zoe", "style", "Indent with spaces", attribute="indentation")
    assert [one.id for one in remote.list("user_preference", user_id="zoe")] == [kept.id]
