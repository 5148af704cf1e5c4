"""The preset schema `general` under its first module name."""

from .. import get_general_schema as get_general_schema
