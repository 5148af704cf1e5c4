"""`DomainMemoryFactory` under its first module name; it is defined in `alma.domains`."""

from . import DomainMemoryFactory as DomainMemoryFactory
