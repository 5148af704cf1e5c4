"""The engine: what a memory keeps, how it is changed and found.

Its modules are attributes of the package and are imported on first use, so that opening alma costs only what is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # that of `typing`, which costs a hook more time than it has
if TYPE_CHECKING:
    from types import ModuleType

    from . import conflicts as conflicts
    from . import consolidate as consolidate
    from . import context as context
    from . import edit as edit
    from . import episodes as episodes
    from . import erase as erase
    from . import explanations as explanations
    from . import history as history
    from . import outcomes as outcomes
    from . import pages as pages
    from . import promotion as promotion
    from . import proof as proof
    from . import retention as retention
    from . import retrieve as retrieve
    from . import rules as rules
    from . import search as search
    from . import transaction as transaction
    from . import upkeep as upkeep
    from . import view as view


def __getattr__(name: str) -> ModuleType:
    missing = f"module {__name__!r} has no attribute {name!r}"
    if name.startswith("_"):
        raise AttributeError(missing)
    import importlib

    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(missing) from None


_USED_BY_MEMORIES = (
    *("conflicts", "consolidate", "edit", "episodes", "erase", "explanations", "facts", "history", "outcomes", "pages"),
    *("promotion", "proof", "retention", "retrieve", "rules", "search", "transaction", "upkeep", "view"),
)


def load_modules() -> None:
    """Import what the calls of a memory use. A fork while another thread imports a module would leave it half done."""
    for name in _USED_BY_MEMORIES:
        __getattr__(name)
