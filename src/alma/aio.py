"""`AsyncALMA`: the same memory for asyncio, by delegation."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from .memory import ALMA
from .ports import Clock, Model

if TYPE_CHECKING:
    from .remote import RemoteALMA

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(method: Callable[Concatenate[ALMA, P], R]) -> Callable[Concatenate[AsyncALMA, P], Coroutine[Any, Any, R]]:
    """Return a method that runs in a thread."""

    @functools.wraps(method)
    async def call(self: AsyncALMA, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, R] = getattr(self.alma, method.__name__)
        return await asyncio.to_thread(bound, *args, **kwargs)

    return cast("Callable[Concatenate[AsyncALMA, P], Coroutine[Any, Any, R]]", call)


def _delegated(method: Callable[Concatenate[ALMA, P], R]) -> Callable[Concatenate[AsyncALMA, P], R]:
    """Return a method that asks nothing of the store when it is called."""

    @functools.wraps(method)
    def call(self: AsyncALMA, *args: P.args, **kwargs: P.kwargs) -> R:
        bound: Callable[P, R] = getattr(self.alma, method.__name__)
        return bound(*args, **kwargs)

    return cast("Callable[Concatenate[AsyncALMA, P], R]", call)


class AsyncALMA:
    """The same memory for asyncio: every method of `ALMA`, awaited, run in a worker thread; `learns` decorates.

    It takes a memory that is open here, or one that is served elsewhere: `AsyncALMA(ALMA.connect(url, token))`.
    """

    def __init__(self, alma: ALMA | RemoteALMA) -> None:
        self.alma = alma

    @classmethod
    async def from_config(cls, config_path: str | PathLike[str]) -> AsyncALMA:
        return cls(await asyncio.to_thread(ALMA.from_config, config_path))

    @classmethod
    async def quickstart(
        cls,
        project_id: str = "my-project",
        storage_dir: str | PathLike[str] = ".alma",
        *,
        clock: Clock | None = None,
    ) -> AsyncALMA:
        return cls(await asyncio.to_thread(ALMA.quickstart, project_id, storage_dir, clock=clock))

    @property
    def project_id(self) -> str:
        return self.alma.project_id

    @property
    def model(self) -> Model | None:
        return self.alma.model if isinstance(self.alma, ALMA) else None

    retrieve = _awaited(ALMA.retrieve)
    learn = _awaited(ALMA.learn)
    learn_many = _awaited(ALMA.learn_many)
    learns = _delegated(ALMA.learns)
    add_user_preference = _awaited(ALMA.add_user_preference)
    add_domain_knowledge = _awaited(ALMA.add_domain_knowledge)
    add_heuristic = _awaited(ALMA.add_heuristic)
    add_anti_pattern = _awaited(ALMA.add_anti_pattern)
    add_rule = _awaited(ALMA.add_rule)
    add_many = _awaited(ALMA.add_many)
    batch_save_outcomes = _awaited(ALMA.batch_save_outcomes)
    batch_save_heuristics = _awaited(ALMA.batch_save_heuristics)
    batch_save_domain_knowledge = _awaited(ALMA.batch_save_domain_knowledge)
    add_episode = _awaited(ALMA.add_episode)
    add_episodes = _awaited(ALMA.add_episodes)
    get = _awaited(ALMA.get)
    list = _awaited(ALMA.list)
    update = _awaited(ALMA.update)
    delete = _awaited(ALMA.delete)
    erase_user = _awaited(ALMA.erase_user)
    history = _awaited(ALMA.history)
    search = _awaited(ALMA.search)
    explain = _awaited(ALMA.explain)
    playbook = _awaited(ALMA.playbook)
    health = _awaited(ALMA.health)
    record_usage = _awaited(ALMA.record_usage)
    record_feedback = _awaited(ALMA.record_feedback)
    forget = _awaited(ALMA.forget)
    reconcile = _awaited(ALMA.reconcile)
    get_stats = _awaited(ALMA.get_stats)
    reindex = _awaited(ALMA.reindex)
    vacuum = _awaited(ALMA.vacuum)
    close = _awaited(ALMA.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


for _name, _method in vars(ALMA).items():
    # What is not listed above works alike; a type checker does not see it.
    if hasattr(_method, "operation") and not hasattr(AsyncALMA, _name):
        setattr(AsyncALMA, _name, _awaited(_method))
