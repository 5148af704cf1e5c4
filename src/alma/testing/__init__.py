"""For those who write a store or a graph, and for tests: the contracts that all of them keep, and fakes.

    from alma.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(self.folder / "memory")

Run it with pytest; `hypothesis` is needed for the random histories.
"""

from .contract import MOMENT, FakeEmbedder, FrozenClock, StoreContract, capabilities, make_record
from .graphs import GraphContract

__all__ = ["MOMENT", "FakeEmbedder", "FrozenClock", "GraphContract", "StoreContract", "capabilities", "make_record"]
