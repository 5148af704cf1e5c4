"""A memory that is served elsewhere, with the methods of `ALMA`: code that uses one does not change.

What could not be sent is sent again, and so is what may be done twice; of anything else nobody can know whether it was
done before the connection broke, and the caller is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

from ..api import operations
from ..api.decoding import decoded, slice_of
from ..api.memories import Change, ForgottenMemories, Found, Reconciled
from ..core import Forgotten
from ..errors import ConfigError, MissingExtraError, ValidationError, unknown
from ..listening import is_local
from ..types.kinds import (
    AntiPattern,
    DomainKnowledge,
    Episode,
    FeedbackSignal,
    Heuristic,
    Memory,
    MemoryType,
    Outcome,
    Rule,
    UserPreference,
)
from ..types.slice import MemorySlice
from .asking import ask, many, said

if TYPE_CHECKING:
    import ssl

    import httpx

    from ..api.values import FeedbackReport, Stats

P = ParamSpec("P")
R = TypeVar("R")
Memories = list[Memory]
Results = list[R]

_IDLE = 30.0


def connect(
    url: str,
    token: str,
    project_id: str | None = None,
    *,
    timeout: float = 60.0,
    insecure: bool = False,
    ca_file: str | None = None,
    transport: httpx.BaseTransport | None = None,
) -> RemoteALMA:
    """The memory that is served at a URL. Nothing is sent before it is used.

    Without TLS only this machine is spoken to, unless `insecure`; `ca_file` holds the certificate of who signed the
    server's. `transport` is one of httpx's, for tests.
    """
    scheme, host = _address(url)
    local = is_local(host)
    if scheme == "http" and not local and not insecure:
        raise ConfigError(f"the token would travel readably to {host}: use https, or pass insecure=True")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigError("the token must be the text that `alma token add` or the first `alma serve` wrote")
    return RemoteALMA(_http(url, token, project_id, timeout, local, ca_file, transport), project_id)


def _address(url: str) -> tuple[str, str]:
    """The scheme and the host."""
    given = str(url)
    try:
        parts = urlsplit(given)
        sound = given.isprintable() and parts.scheme in ("http", "https") and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not parts.hostname:
        raise ConfigError(f"the address must be such as https://memory.example.org, not {url!r}")
    return parts.scheme, parts.hostname


def _http(
    url: str,
    token: str,
    project: str | None,
    timeout: float,
    local: bool,
    ca_file: str | None,
    transport: httpx.BaseTransport | None,
) -> httpx.Client:
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise MissingExtraError("httpx", "http", "A memory that is served elsewhere") from error
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    if project is not None:
        headers["alma-project"] = quote(project, safe="")
    return httpx.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        verify=True if ca_file is None else _trusting(ca_file),
        limits=httpx.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=_IDLE),
        transport=transport,
        # A proxy has no business between us and our own machine.
        trust_env=not local,
    )


def _trusting(ca_file: str) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"{ca_file} holds no certificates: {error}") from error


class RemoteALMA:
    """The methods of `ALMA`, and every other operation under its own name, over HTTP. Made by `ALMA.connect`."""

    def __init__(self, http: httpx.Client, project_id: str | None = None) -> None:
        self._http = http
        self._project = project_id

    @property
    def project_id(self) -> str:
        if self._project is None:
            self._project = str(self._asked("health", {})["project_id"])
        return self._project

    def close(self) -> None:
        """Let go of the connections; the server goes on."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in operations():
            raise AttributeError(
                f"{name!r} is not there for a memory that is served elsewhere; open one here with ALMA.from_config"
            )
        return lambda **arguments: self.call(name, **arguments)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Any operation by its name, with what it gives as the value it is."""
        listed = operations()
        if operation not in listed:
            raise ValidationError(unknown("operation", operation, listed))
        made = self._asked(operation, arguments)
        returned = listed[operation].returns
        return decoded(returned, made["result"] if made.keys() == {"result"} else made)

    # -- the loop

    def retrieve(
        self,
        task: str,
        agent: str,
        user_id: str | None = None,
        top_k: int | None = None,
        *,
        mode: str = "default",
        types: Iterable[str] | None = None,
        tags: Iterable[str] | None = None,
        task_type: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        as_of: datetime | str | None = None,
        level: str = "session",
        progressive: bool = False,
    ) -> MemorySlice:
        """As `ALMA.retrieve`."""
        found: Found = decoded(Found, self._asked("retrieve", said(locals())))
        return slice_of(found, progressive=progressive)

    def learn(
        self,
        agent: str,
        task: str,
        outcome: str,
        strategy_used: str,
        task_type: str | None = None,
        duration_ms: int | None = None,
        error_message: str | None = None,
        feedback: str | None = None,
        retrieval_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        user_id: str | None = None,
        shared: bool = False,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """As `ALMA.learn`."""
        return self._one(Outcome, "learn", locals())

    def learn_many(self, outcomes: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        return self._several(Outcome, "learn_many", {"outcomes": many("outcomes", outcomes)})

    def learns(
        self,
        agent: str,
        task: str | Callable[..., str] | None = None,
        strategy: str | Callable[..., str] | None = None,
        task_type: str | None = None,
        reraise: bool = True,
        *,
        success: Callable[[Any], bool | str] | None = None,
        user_id: str | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """As `ALMA.learns`. Whether the agent may learn is for the server to say, with each outcome."""
        from ..api.teaching import learns

        given = {"task_type": task_type, "reraise": reraise, "success": success, "user_id": user_id}
        return cast("Callable[[Callable[P, R]], Callable[P, R]]", learns(self.learn, agent, task, strategy, **given))

    # -- what is told

    def add_episode(
        self,
        agent: str,
        session_id: str,
        turns: Iterable[Mapping[str, Any]],
        user_id: str | None = None,
        *,
        title: str = "",
        source: str = "conversation",
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Episode:
        """As `ALMA.add_episode`."""
        return self._one(Episode, "add_episode", locals())

    def add_episodes(self, conversations: Iterable[Mapping[str, Any]]) -> list[Episode]:
        return self._several(Episode, "add_episodes", {"conversations": many("conversations", conversations)})

    def add_user_preference(
        self,
        user_id: str,
        category: str,
        preference: str,
        source: str = "explicit_instruction",
        *,
        attribute: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> UserPreference:
        """As `ALMA.add_user_preference`."""
        return self._one(UserPreference, "add_preference", locals())

    def add_domain_knowledge(
        self,
        agent: str,
        domain: str,
        fact: str,
        source: str = "user_stated",
        *,
        subject: str | None = None,
        attribute: str | None = None,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> DomainKnowledge:
        """As `ALMA.add_domain_knowledge`."""
        return self._one(DomainKnowledge, "add_knowledge", locals())

    def add_heuristic(
        self,
        agent: str,
        condition: str,
        strategy: str,
        category: str | None = None,
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Heuristic:
        """As `ALMA.add_heuristic`."""
        return self._one(Heuristic, "add_heuristic", locals())

    def add_anti_pattern(
        self,
        agent: str,
        pattern: str,
        why_bad: str,
        better_alternative: str = "",
        condition: str = "",
        category: str | None = None,
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> AntiPattern:
        """As `ALMA.add_anti_pattern`."""
        return self._one(AntiPattern, "add_anti_pattern", locals())

    def add_rule(
        self,
        agent: str,
        rule: str,
        trigger: str = "",
        why: str = "",
        reach: str = "project",
        source: str = "user_stated",
        *,
        user_id: str | None = None,
        tags: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Rule:
        """As `ALMA.add_rule`."""
        return self._one(Rule, "add_rule", locals())

    def add_many(self, memories: Iterable[Mapping[str, Any]]) -> list[Memory]:
        return self._several(Memory, "add_many", {"memories": many("memories", memories)})

    # -- single memories

    def get(self, memory_id: str) -> Memory:
        return self._one(Memory, "get", locals())

    def update(
        self,
        memory_id: str,
        /,
        *,
        status: str | None = None,
        tags: Iterable[str] | None = None,
        source: str = "user",
        **fields: Any,
    ) -> Memory:
        """As `ALMA.update`."""
        given = {"memory_id": memory_id, "status": status, "tags": tags, "source": source, "fields": fields or None}
        return self._one(Memory, "update", given)

    def delete(self, memory_id: str) -> None:
        self._asked("delete", {"memory_id": memory_id})

    def erase_user(self, user_id: str) -> dict[str, int]:
        """As `ALMA.erase_user`."""
        counts: dict[str, int] = self._asked("erase_user", {"user_id": user_id})["counts"]
        return counts

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        changes = self._several(Change, "history", {"memory_id": memory_id})
        return [{"at": one.at, "verb": one.verb, "why": one.why, "before": one.before} for one in changes]

    # -- feedback and upkeep

    def record_usage(
        self,
        retrieved_memory_ids: Sequence[str],
        used_memory_ids: Sequence[str],
        memory_type: MemoryType | str | None = None,
        agent: str | None = None,
        query: str = "",
    ) -> FeedbackReport:
        """As `ALMA.record_usage`."""
        made: FeedbackReport = self.call("record_usage", **said(locals()))
        return made

    def record_feedback(
        self,
        memory_id: str,
        memory_type: MemoryType | str | None = None,
        signal: FeedbackSignal | str = FeedbackSignal.THUMBS_UP,
        agent: str | None = None,
        query: str = "",
    ) -> FeedbackReport:
        """As `ALMA.record_feedback`."""
        made: FeedbackReport = self.call("record_feedback", **said(locals()))
        return made

    def forget(
        self,
        agent: str | None = None,
        older_than_days: float = 90,
        below_confidence: float = 0.3,
        dry_run: bool = False,
    ) -> Forgotten:
        """As `ALMA.forget`."""
        gone: ForgottenMemories = decoded(ForgottenMemories, self._asked("forget", said(locals())))
        return Forgotten(gone.ids)

    def reconcile(self, limit: int = 400) -> Reconciled:
        """As `ALMA.reconcile`, with the model of the server."""
        made: Reconciled = self.call("reconcile", limit=limit)
        return made

    def get_stats(self, agent: str | None = None, user_id: str | None = None) -> Stats:
        return cast("Stats", self._asked("stats", said(locals())))

    # -- how it is asked

    def _one(self, kind: type[R], operation: str, given: Mapping[str, Any]) -> R:
        made: R = decoded(kind, self._asked(operation, said(given)))
        return made

    def _several(self, kind: type[R], operation: str, given: Mapping[str, Any]) -> Results[R]:
        return [decoded(kind, one) for one in self._asked(operation, given)["result"]]

    def _asked(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        return ask(self._http, operation, arguments)

    # Last, because within the class its name hides the builtin.
    def list(
        self,
        memory_type: str | None = None,
        agent: str | None = None,
        user_id: str | None = None,
        status: str | None = "active",
        tag: str | None = None,
        limit: int = 50,
    ) -> Memories:
        """As `ALMA.list`."""
        made: Memories = self.call("list", **{**said(locals()), "status": status})
        return made
