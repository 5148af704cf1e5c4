"""Only as much memory as is needed: who one is, what matters most, what a topic calls for, and all there is.

from alma.context import MemoryStack

stack = MemoryStack(alma, agent="helena")
prompt = stack.wake_up()
"""

from .stack import MemoryStack

__all__ = ["MemoryStack"]
