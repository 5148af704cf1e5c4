"""Install packages for a test into a folder, with whichever installer this environment has."""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path


def list_install_words(folder: Path) -> list[str]:
    """Return the command that installs the packages named after it into a folder."""
    if find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
    uv = shutil.which("uv")
    if uv is None:
        raise OSError("neither pip nor uv was found")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--target", str(folder)]
