"""`alma serve` and `alma token`: the memory as an HTTP service, and who may call it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..http import server
from .marks import moment
from .opening import Later
from .output import Output
from .parser import Subparsers, add_choice, command, grouped, listed
from .shapes import Column, Shape, line, table

if TYPE_CHECKING:
    from ..http import tokens
else:
    tokens = Later("alma.http.tokens")

SCOPES = ("read", "write", "approve", "admin")

_TOKENS = """
alma token add dashboard --scope read
alma token list
alma token revoke dashboard
"""


def register(commands: Subparsers) -> None:
    _register_serve(commands)
    group = grouped(commands, "token", _TOKENS)
    _register_add(group)
    command(group, "list", list_tokens, "list the tokens there are; what they are is not kept", "alma token list")
    revoking = command(
        group,
        "revoke",
        revoke,
        "let a token open nothing any more, in a running server too",
        "alma token revoke dashboard",
    )
    revoking.add_argument("name", metavar="NAME", help="the token's name")


# -- serve


def _register_serve(commands: Subparsers) -> None:
    parser = listed(
        commands,
        "serve",
        serve,
        """
        alma serve
        alma serve --port 9000 --log-file requests.jsonl
        alma serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --allowed-host memory.example.org
        """,
    )
    server.add_arguments(parser)
    parser.set_defaults(own_log=True)


def serve(args: argparse.Namespace, out: Output) -> int:
    server.serve(server.read_options(args, args.config))
    return 0


# -- token


def _register_add(group: Subparsers) -> None:
    parser = command(
        group,
        "add",
        add,
        "make a token; it is shown once and not kept",
        """
        alma token add dashboard --scope read
        alma token add ci --scope write --project shop --project garden --expires 90d
        alma token add ana --scope approve    # for a person who reviews memories from outside content
        """,
    )
    parser.add_argument("name", metavar="NAME", help="what it is called here")
    add_choice(parser, "--scope", SCOPES, "what it may do, each holding those before it", metavar="S", default="read")
    parser.add_argument(
        "--project", metavar="P", dest="projects", action="append", help="only this project; may be repeated"
    )
    parser.add_argument(
        "--expires",
        metavar="WHEN",
        help="a duration such as 12h, 30d or 1y, or a date such as 2031-01-31; default: never",
    )


def _file(args: argparse.Namespace) -> Path:
    """Beside the configuration, which must be one: a token for nothing helps nobody."""
    from ..app import read_config

    path, _ = read_config(args.config)
    return tokens.beside(path)


def add(args: argparse.Namespace, out: Output) -> int:
    file = _file(args)
    secret = tokens.add(file, args.name, args.scope, args.projects or (), args.expires)
    [made] = [one for one in tokens.listed(file) if one.name == args.name.strip()]
    if not out.answered({**_told(made), "token": secret}):
        out.show(line(f"{made.name} may {_may(made)}. This is the token; it is not shown again:"))
        out.line(secret)
    return 0


def list_tokens(args: argparse.Namespace, out: Output) -> int:
    found = tokens.listed(_file(args))
    if not out.answered({"count": len(found), "tokens": [_told(one) for one in found]}):
        out.show(_table(found))
    return 0


def revoke(args: argparse.Namespace, out: Output) -> int:
    gone = tokens.revoke(_file(args), args.name)
    if not out.answered({"revoked": gone.name}):
        out.show(line(f"{gone.name} opens nothing any more"))
    return 0


def _told(one: tokens.Token) -> dict[str, object]:
    """Without its digest: nobody needs it."""
    projects = None if one.projects is None else sorted(one.projects)
    return {
        "name": one.name,
        "scope": one.scope,
        "projects": projects,
        "created_at": one.created_at,
        "expires_at": one.expires_at,
        "expired": one.is_expired,
    }


def _may(one: tokens.Token) -> str:
    until = f" until {one.expires_at:%Y-%m-%d %H:%M} UTC" if one.expires_at else ""
    return f"{'do everything' if one.scope == 'admin' else one.scope} in {_where(one)}{until}"


def _where(one: tokens.Token) -> str:
    return "all projects" if one.projects is None else ", ".join(sorted(one.projects))


def _table(found: Sequence[tokens.Token]) -> Shape:
    if not found:
        return line("no token yet; `alma serve` makes the first, `alma token add` another", "dim")
    made = table("name", "scope", "projects", Column("made", "dim"), "expires")
    for one in found:
        made.add(line(one.name, "bold"), str(one.scope), _where(one), moment(one.created_at), _expiry(one))
    return made


def _expiry(one: tokens.Token) -> str:
    if one.expires_at is None:
        return "never"
    return "expired" if one.is_expired else moment(one.expires_at)
