"""A memory that is served elsewhere, with the methods of `ALMA`: code that uses one does not change.

Requests that could not be sent are sent again, and so are those that may be done twice. For all others nobody can know
whether they were done before the connection broke, and the caller gets an error that says so.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast
from urllib.parse import quote, urlsplit

from . import errors
from .answers import Change, Deleted, ErasedUser, ForgottenMemories, Found, Text
from .engine.context import Engine
from .engine.view import render_slice
from .errors import (
    ALMAError,
    BusyError,
    ConfigError,
    MissingExtraError,
    StorageError,
    ValidationError,
    unknown,
)
from .listening import is_local
from .memory import ALMA, Forgotten, Memories, Rows
from .operations import Operation, operations
from .schema import RESULT, TYPES, decode, plain
from .types.kinds import (
    AntiPattern,
    DomainKnowledge,
    Episode,
    Heuristic,
    MemoryType,
    Outcome,
    Rule,
    Turn,
    UserPreference,
)
from .types.slice import MemorySlice

if TYPE_CHECKING:
    import ssl

    import httpx

P = ParamSpec("P")
R = TypeVar("R")

_IDLE = 30.0
_TRIES = 4
_PAUSE = 0.2
_LONGEST_PAUSE = 5.0
_BY_STATUS: Mapping[int, type[ALMAError]] = {
    400: ValidationError,
    401: ConfigError,
    403: errors.ScopeError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    413: ValidationError,
    421: ConfigError,
    429: BusyError,
    503: BusyError,
}
_PLACES = {
    UserPreference: "preferences",
    Rule: "rules",
    Heuristic: "heuristics",
    AntiPattern: "anti_patterns",
    DomainKnowledge: "domain_knowledge",
    Outcome: "outcomes",
    Episode: "episodes",
    Turn: "turns",
}


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
    """Return the memory that is served at a URL. Nothing is sent before it is used.

    Without TLS only this machine is spoken to, unless `insecure`; `ca_file` holds the certificate of who signed the
    server's. `transport` is one of httpx's, for tests.
    """
    try:
        parts = urlsplit(str(url))
        is_sound = str(url).isprintable() and parts.scheme in ("http", "https") and parts.port != 0
        host = parts.hostname if is_sound else None
    except ValueError:
        host = None
    if not host:
        raise ConfigError(f"the address must be such as https://memory.example.org, not {url!r}")
    if parts.scheme == "http" and not is_local(host) and not insecure:
        raise ConfigError(f"the token would travel readably to {host}: use https, or pass insecure=True")
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigError("the token must be the text that `alma token add` or the first `alma serve` wrote")
    try:
        import httpx
    except ModuleNotFoundError as error:
        raise MissingExtraError("httpx", "http", "A memory that is served elsewhere") from error
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    if project_id is not None:
        headers["alma-project"] = quote(project_id, safe="")
    client = httpx.Client(
        base_url=url,
        headers=headers,
        timeout=timeout,
        verify=True if ca_file is None else _load_certificates(ca_file),
        limits=httpx.Limits(max_connections=64, max_keepalive_connections=64, keepalive_expiry=_IDLE),
        transport=transport,
        # A proxy has no business between us and our own machine.
        trust_env=not is_local(host),
    )
    return RemoteALMA(client, project_id)


def _load_certificates(ca_file: str) -> ssl.SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(f"{ca_file} holds no certificates: {error}") from error


def _remote(method: Callable[Concatenate[ALMA, P], R]) -> Callable[Concatenate[RemoteALMA, P], R]:
    """Return a method of `ALMA` as one that asks the server."""
    operation: Operation = method.operation  # type: ignore[attr-defined]

    @functools.wraps(method)
    def call(self: RemoteALMA, *args: P.args, **kwargs: P.kwargs) -> Any:
        bound = operation.signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        if named := given.get("named"):
            given["fields"] = {**(given["fields"] or {}), **named}
        arguments = {
            one.name: given[one.name]
            for one in operation.parameters
            if one.name in given and (one.needed or given[one.name] != one.default)
        }
        answer = _from_answer(self.call(operation.name, **arguments), given)
        if operation.name == "get" and not isinstance(answer, given["memory_type"]):
            wanted = given["memory_type"].__name__
            raise ValidationError(f"{answer.id} is a {type(answer).__name__}, not a {wanted}")
        return answer

    return cast("Callable[Concatenate[RemoteALMA, P], R]", call)


def _from_answer(answer: Any, given: Mapping[str, Any]) -> Any:
    """Return what the method of `ALMA` returns, from what the server answers."""
    if isinstance(answer, Found):
        places: dict[str, list[Any]] = {name: [] for name in _PLACES.values()}
        for one in answer.memories:
            places[_PLACES[type(one)]].append(one)
        return MemorySlice(
            query=answer.query,
            agent=answer.agent,
            progressive=given["progressive"],
            retrieval_id=answer.retrieval_id,
            retrieval_time_ms=answer.retrieval_time_ms,
            explanations=tuple(answer.explanations),
            standing_rules=answer.standing_rules,
            renderer=render_slice,
            **places,
        )
    if isinstance(answer, ForgottenMemories):
        return Forgotten(answer.ids)
    if isinstance(answer, Deleted):
        return None
    if isinstance(answer, ErasedUser):
        return answer.counts
    if isinstance(answer, list) and answer and isinstance(answer[0], Change):
        return [{"at": one.at, "verb": one.verb, "why": one.why, "before": one.before} for one in answer]
    return answer.text if isinstance(answer, Text) else answer


class RemoteALMA:
    """The methods of `ALMA`, and every other operation under its own name, over HTTP. Made by `ALMA.connect`."""

    def __init__(self, http: httpx.Client, project_id: str | None = None) -> None:
        self._http = http
        self._project = project_id

    @property
    def project_id(self) -> str:
        if self._project is None:
            self._project = str(self.call("health").project_id)
        return self._project

    def close(self) -> None:
        """Close the connections; the server goes on."""
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
        return functools.partial(self.call, name)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call any operation by its name, and return what it answers as the value it is."""
        listed = operations()
        if operation not in listed:
            raise ValidationError(unknown("operation", operation, listed))
        answer = _ask(self._http, listed[operation], _to_json(arguments))
        return decode(listed[operation].returns, answer[RESULT] if answer.keys() == {RESULT} else answer)

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
        from .harness import learns

        store: Any = None
        anybody: Any = SimpleNamespace(engine=Engine(store=store, project="elsewhere"), learn=self.learn)
        return learns(anybody, agent, task, strategy, task_type, reraise, success=success, user_id=user_id)

    def batch_save_heuristics(self, heuristics: Rows) -> Memories:
        """As `ALMA.batch_save_heuristics`."""
        return self.add_many([{"type": MemoryType.HEURISTIC, **one} for one in heuristics])

    def batch_save_domain_knowledge(self, knowledge: Rows) -> Memories:
        """As `ALMA.batch_save_domain_knowledge`."""
        return self.add_many([{"type": MemoryType.DOMAIN_KNOWLEDGE, **one} for one in knowledge])

    retrieve = _remote(ALMA.retrieve)
    learn = _remote(ALMA.learn)
    learn_many = batch_save_outcomes = _remote(ALMA.learn_many)
    add_episode = _remote(ALMA.add_episode)
    add_episodes = _remote(ALMA.add_episodes)
    add_user_preference = _remote(ALMA.add_user_preference)
    add_domain_knowledge = _remote(ALMA.add_domain_knowledge)
    add_heuristic = _remote(ALMA.add_heuristic)
    add_anti_pattern = _remote(ALMA.add_anti_pattern)
    add_rule = _remote(ALMA.add_rule)
    add_many = _remote(ALMA.add_many)
    get = _remote(ALMA.get)
    search = _remote(ALMA.search)
    explain = _remote(ALMA.explain)
    update = _remote(ALMA.update)
    delete = _remote(ALMA.delete)
    erase_user = _remote(ALMA.erase_user)
    history = _remote(ALMA.history)
    record_usage = _remote(ALMA.record_usage)
    record_feedback = _remote(ALMA.record_feedback)
    forget = _remote(ALMA.forget)
    reconcile = _remote(ALMA.reconcile)
    get_stats = _remote(ALMA.get_stats)
    playbook = _remote(ALMA.playbook)
    health = _remote(ALMA.health)
    list = _remote(ALMA.list)


# -- one request


def _ask(http: httpx.Client, operation: Operation, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what the server answers, as JSON. ALMAError when it refuses or cannot be reached."""
    import httpx

    try:
        body = json.dumps(arguments, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValidationError(f"the arguments must hold JSON values only: {error}") from None
    calls = arguments.get("outcomes", [arguments])
    has_keys = isinstance(calls, list) and all(isinstance(one, dict) and one.get("idempotency_key") for one in calls)
    may_repeat = operation.idempotent or has_keys
    for left in reversed(range(_TRIES)):
        pause = _PAUSE * (_TRIES - left)
        try:
            response = http.post(f"/v1/{operation.name}", content=body)
        except httpx.TransportError as error:
            was_not_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            if left and (may_repeat or was_not_sent):
                time.sleep(pause)
                continue
            if was_not_sent:
                raise StorageError(f"{http.base_url} cannot be reached: {error}") from error
            name = type(error).__name__
            raise StorageError(f"{http.base_url} did not answer ({name}); whether it was done is not known") from error
        answer = _read(response)
        if response.status_code == 200:
            return answer
        kind = str(answer.get("type", "")).removeprefix("urn:alma:error:")
        # A request over the limit was refused before anything was done.
        may_try_again = kind == "RateLimited" or (may_repeat and response.status_code == 503)
        if not left or not may_try_again:
            raise _to_error(response, kind, str(answer.get("detail", "")))
        wanted = response.headers.get("retry-after", "")
        time.sleep(min(_LONGEST_PAUSE, float(wanted)) if wanted.isdecimal() else pause)
    raise AssertionError("the last try ends the loop")


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _to_json(item) for name, item in value.items()}
    if isinstance(value, type):
        return str(TYPES.get(value, value.__name__))
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray):
        return [_to_json(item) for item in value]
    return plain(value)


def _read(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise StorageError(
            f"{response.url} answered {response.status_code}, and not as alma does; is it another service?"
        )
    return answer


def _to_error(response: httpx.Response, kind: str, message: str) -> ALMAError:
    """Return the same kind of error that was raised on the other side."""
    message = message or f"{response.url} answered {response.status_code}"
    named = getattr(errors, kind, None)
    if isinstance(named, type) and issubclass(named, ALMAError) and not issubclass(named, MissingExtraError):
        return named(message)
    return _BY_STATUS.get(response.status_code, ALMAError)(message)
