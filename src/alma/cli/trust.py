"""`alma trust`: which folders may configure everything by the file that lies in them."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..errors import ConfigError, NotFoundError, ValidationError
from .output import Output
from .parser import Subparsers, listed
from .shapes import line, table

_EXAMPLES = """
alma trust                    # the nearest folder with .alma/config.yaml
alma trust ~/src/shop
alma trust --list
alma trust --remove ~/src/shop
"""


def register(commands: Subparsers) -> None:
    parser = listed(commands, "trust", run_trust, _EXAMPLES)
    parser.add_argument(
        "path", metavar="PATH", nargs="?", help="the folder that holds .alma; default: the nearest here or above"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--list", action="store_true", help="list the trusted folders")
    action.add_argument("--remove", action="store_true", help="no longer trust the folder, nor the memory in it")


def run_trust(args: argparse.Namespace, out: Output) -> int:
    if args.list:
        if args.path is not None:
            raise ValidationError("--list takes no PATH: it lists all trusted folders")
        return list_folders(out)
    folder = find_folder(args.path)
    return remove_folder(folder, out) if args.remove else add_folder(folder, out)


def find_folder(path: str | None) -> Path:
    """The project folder that a path means: itself, or the one whose `.alma` or `.alma/config.yaml` it is."""
    from ..config import DEFAULT_PATH

    if path is not None:
        given = Path(path).expanduser().absolute()
        for folder in (given.parent.parent, given.parent):
            if given in (folder / DEFAULT_PATH, folder / DEFAULT_PATH.parent):
                return folder
        return given
    here = Path.cwd()
    above = (folder for folder in (here, *here.parents) if (folder / DEFAULT_PATH).is_file())
    return next(above, here)


def add_folder(folder: Path, out: Output) -> int:
    from .. import trust_register
    from ..app import list_data_files
    from ..config import DEFAULT_PATH, Config, list_restricted_settings, load

    file = folder / DEFAULT_PATH
    if not file.parent.is_dir():
        raise ConfigError(f"there is no {DEFAULT_PATH.parent} in {folder}, so there is nothing to trust")
    content = file.read_bytes() if file.is_file() else b""
    restricted = list_restricted_settings(file) if content else []
    config = load(file) if content else Config(project_id="default", storage_dir=file.parent)
    files = list_data_files(file, config)
    tracked = trust_register.trust_folder(folder, content, files)
    if not out.answered({"folder": folder, "config": file if content else None, "sets": restricted, "files": files}):
        out.line(f"trusted {folder}, until {DEFAULT_PATH} changes")
        if restricted:
            out.line(f"  it may now set: {', '.join(restricted)}")
        if files:
            out.line(f"  its files are used: {', '.join(str(file.relative_to(folder)) for file in files)}")
        if tracked:
            names = ", ".join(str(file.relative_to(folder)) for file in tracked)
            out.line(f"  git tracks {names}: what a pull brings is used, too")
    return 0


def remove_folder(folder: Path, out: Output) -> int:
    from .. import trust_register

    if not trust_register.remove_folder(folder):
        raise NotFoundError(f"{folder} is not trusted; `alma trust --list` lists the folders that are")
    if not out.answered({"removed": folder}):
        out.line(f"{folder} is no longer trusted")
    return 0


def list_folders(out: Output) -> int:
    from .. import trust_register
    from ..config import DEFAULT_PATH

    rows = []
    for name, digest in sorted(trust_register.read_register().folders.items()):
        file = Path(name) / DEFAULT_PATH
        content = file.read_bytes() if file.is_file() else b""
        state = "trusted" if trust_register.digest_content(content) == digest else "changed since it was trusted"
        rows.append({"folder": name, "state": state})
    if out.answered({"count": len(rows), "folders": rows}):
        return 0
    if not rows:
        out.show(line("no folder is trusted yet", "dim"))
        return 0
    listing = table("folder", "state")
    for row in rows:
        listing.add(row["folder"], row["state"])
    out.show(listing)
    return 0
