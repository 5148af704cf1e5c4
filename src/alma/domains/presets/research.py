"""The preset schema `research` under its first module name."""

from .. import get_research_schema as get_research_schema
