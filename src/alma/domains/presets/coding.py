"""The preset schema `coding` under its first module name."""

from .. import get_coding_schema as get_coding_schema
