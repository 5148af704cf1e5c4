"""For those who write a store, and for tests: the contract every store keeps, and fakes.

    from alma.testing import StoreContract

    class TestMyStore(StoreContract):
        def make_store(self):
            return MyStore(self.folder / "memory")

Run it with pytest; `hypothesis` is needed for the random histories.
"""

from .contract import StoreContract, capabilities
from .fakes import FakeEmbedder, FrozenClock, make_record

__all__ = ["FakeEmbedder", "FrozenClock", "StoreContract", "capabilities", "make_record"]
