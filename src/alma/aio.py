"""`AsyncALMA`: the same memory for asyncio, by delegation.

Its methods are made from those of `ALMA`. Type checkers read `aio.pyi`, which `tools/generate_stub.py` writes.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any

from .memory import ALMA


class AsyncALMA:
    """The same memory for asyncio: every method of `ALMA` is awaited and runs in a worker thread.

    Takes an open memory, local or remote: `AsyncALMA(ALMA.connect(url, token))`.
    """

    def __init__(self, alma: ALMA) -> None:
        self.alma = alma

    @property
    def project_id(self) -> str:
        """The project this memory belongs to."""
        return self.alma.project_id

    @property
    def model(self) -> Any:
        """The configured language model; None if there is none."""
        return getattr(self.alma, "model", None)

    def __getattr__(self, name: str) -> Any:
        """Say where a name is that this class does not have."""
        hint = ""
        if name == "engine" or (not name.startswith("_") and hasattr(ALMA, name)):
            hint = f"; it is on the memory itself: .alma.{name}"
        raise AttributeError(f"AsyncALMA has no {name!r}{hint}", name=name, obj=self)

    @functools.wraps(ALMA.learns)
    def learns(self, *args: Any, **options: Any) -> Any:
        """Decorate a function so that its calls are recorded; see `ALMA.learns`."""
        return self.alma.learns(*args, **options)

    async def __aenter__(self) -> AsyncALMA:
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.alma.close)


def _make_awaitable(name: str, method: Callable[..., Any]) -> Any:
    """Return a method that runs in a thread. A method that opens a memory returns an `AsyncALMA`."""
    if inspect.ismethod(method):

        @functools.wraps(method.__func__)
        async def open_memory(cls: type[AsyncALMA], *args: Any, **options: Any) -> AsyncALMA:
            return cls(await asyncio.to_thread(method, *args, **options))

        return classmethod(open_memory)

    @functools.wraps(method)
    async def call(self: AsyncALMA, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self.alma, name), *args, **options)

    return call


for _name, _method in inspect.getmembers(ALMA, inspect.isroutine):
    if not _name.startswith("_") and _name != "connect" and not hasattr(AsyncALMA, _name):
        setattr(AsyncALMA, _name, _make_awaitable(_name, _method))
