"""Commands that do not open a memory: init, servers, tokens and shell completion."""

from __future__ import annotations

import json
import os
import shlex
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from .. import http, mcp, people
from ..config import load
from ..errors import ConfigError, StorageError, ValidationError
from ..files import create_private, make_private_folder
from ..http import dashboard, tokens
from ..mcp import clients
from ..trust_register import trust_folder
from ..types.kinds import EVERYWHERE
from .derive import Argument, Call, Reply, command, reply_value

EMBEDDINGS = ("auto", "local", "onnx", "openai", "azure", "hash", "none")
SCOPES = tuple(map(str, tokens.TokenScope))
_NAME = Argument("NAME", "the token's name")
_UNINSTALL = "Remove the server from an MCP client's settings."
_OPTIONS = {
    "onnx": "  embedding:\n    path: .alma/model            # a folder with model.onnx and tokenizer.json\n",
    "openai": "  embedding:\n    api_key: ${OPENAI_API_KEY:-}\n    model: text-embedding-3-small\n",
    "azure": (
        "  embedding:\n    endpoint: ${AZURE_OPENAI_ENDPOINT:-}\n    deployment: ${AZURE_OPENAI_DEPLOYMENT:-}\n"
        "    api_key: ${AZURE_OPENAI_API_KEY:-}\n"
    ),
}


# -- set up


def write_configuration(project: str, storage: str, embedding: str, folder: str) -> str:
    """Return the text of a new configuration file."""
    template = Path(__file__).with_name("config_template.yaml").read_text(encoding="utf-8")
    return template.format(
        project=json.dumps(project),
        storage=storage,
        folder=folder,
        db_name={"sqlite": "alma.db", "file": "alma.jsonl"}[storage],
        embedding=embedding,
        options=_OPTIONS.get(embedding, ""),
    )


@command("init")
@Argument("--project-id ID", "the project's id (default: the folder's name)")
@Argument("--storage STORAGE", "sqlite or file (default: sqlite)", choices=("sqlite", "file"), default="sqlite")
@Argument("--embedding EMBEDDER", f"{', '.join(EMBEDDINGS)} (default: auto)", choices=EMBEDDINGS, default="auto")
@Argument("--dir DIR", "the folder to write to (default: .alma)", default=".alma")
@Argument("--force", "overwrite an existing configuration")
def init(call: Call) -> Reply:
    """Create a configuration file for this folder."""
    args, folder = call.args, Path(call.args.dir)
    file, whole = folder / "config.yaml", folder.resolve()
    is_hidden = whole.name == ".alma"
    if file.exists() and not args.force:
        raise ConfigError(f"{file} already exists; pass --force to overwrite it")
    if args.project_id is not None and not args.project_id.strip():
        raise ValidationError("--project-id must not be blank; leave it out to use the folder's name")
    project = args.project_id or (whole.parent if is_hidden else whole).name or "my-project"
    if project.strip() == EVERYWHERE:
        raise ValidationError(f"{EVERYWHERE!r} means all projects; name this one with --project-id")
    text = write_configuration(project, args.storage, args.embedding, ".alma" if is_hidden else ".")
    fresh = file.with_name(f"{file.name}.new")
    try:
        make_private_folder(folder)
        if is_hidden:
            folder.chmod(0o700)
        # Check it before it replaces the old file.
        fresh.unlink(missing_ok=True)
        create_private(fresh, text)
        load(fresh)
        fresh.replace(file)
    except OSError as error:
        raise StorageError(f"cannot create {file}: {error.strerror}") from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    if is_hidden and not call.agent_above:
        # If trust cannot be recorded, or an agent runs this, the settings that need no trust still work.
        with suppress(StorageError, ConfigError):
            trust_folder(whole.parent, text.encode())
    alma = "alma" if file == Path(".alma") / "config.yaml" else f"alma --config {shlex.quote(str(file))}"
    return Reply(
        {"config": file, "project_id": project, "storage": args.storage, "embedding": args.embedding},
        f"Created {file} for project {project!r}. Next:",
        f'  {alma} learn --agent dev --task "Fix the login test" --outcome success --strategy "Clear the cache"',
        f'  {alma} retrieve "Fix the login test" --agent dev',
    )


# -- servers


@command("serve", add_arguments=http.add_arguments, own_log=True)
def serve(call: Call) -> int:
    """Run the HTTP server. It listens on this machine only, unless --host is passed."""
    is_from_environment = any(os.environ.get(name) for name in (tokens.SECRET_VARIABLE, tokens.FILE_VARIABLE))
    if is_from_environment or call.args.tokens:
        # An agent that chooses the tokens would have all rights.
        call.require_person("`alma serve` with tokens from the environment or --tokens", can_script=True)
    http.serve(http.HttpOptions.read(call.args, call.args.config))
    return 0


@command("dashboard")
@Argument("--port N", "port of a server that is started (default: any free port)", type=int, default=0)
@Argument("--project P", "the project to show first (default: the configured one)")
@Argument("--read-only", "let the browser change nothing", group="either")
@Argument("--admin", "let the browser delete memories", group="either")
@Argument("--server URL", "open the dashboard of this server, with the token of --token-file or $ALMA_HTTP_TOKEN")
@Argument("--token-file FILE", "read the token from this file (default: $ALMA_HTTP_TOKEN, or the server's first token)")
@Argument("--no-open", "print the link instead of opening a browser")
def open_dashboard(call: Call) -> Reply:
    """Open the dashboard in a browser. A server is started on this machine if none is running; it ends when idle.

    The link works once, within a minute. The browser may edit and approve memories, unless --read-only is passed.
    """
    args = call.args
    if not args.read_only:
        # Whoever can read a printed link may approve with it.
        is_printed = args.no_open or call.out.as_json
        door = "run it in a terminal that no agent started, or pass --read-only"
        call.require_person("opening the dashboard without --read-only", door, can_script=not is_printed)
    scope, was_started = dashboard.choose_scope(read_only=args.read_only, admin=args.admin), False
    if args.server:
        link = dashboard.ask_link(args.server, dashboard.read_token(None, args.token_file), scope, args.project)
    else:
        options = {"port": args.port, "project": args.project, "named_token": args.token_file}
        path = call.config[0].resolve()
        link, was_started = dashboard.get_link(path, tokens.find_file(path), scope, **options)
    may_open = not args.no_open and not call.out.as_json
    return Reply(*dashboard.show_link(link, was_started=was_started, may_open=may_open))


@command("mcp", add_arguments=mcp.add_arguments, own_log=True)
def serve_mcp(call: Call) -> int:
    """Run the MCP server over standard input and output, or over HTTP."""
    mcp.run(mcp.McpOptions.read(call.args, call.args.config))
    return 0


@command("mcp uninstall", add_arguments=partial(clients.add_arguments, action=clients.UNINSTALL), help=_UNINSTALL)
@command("mcp install", add_arguments=partial(clients.add_arguments, action=clients.INSTALL))
def install_mcp(call: Call) -> int:
    """Add the server to an MCP client's settings. Shows the change and asks first."""
    args, as_json = call.args, call.out.as_json
    if getattr(args, "approve", False) and not args.dry_run:
        people.require_person("`alma mcp install --approve`")
    if as_json and not (args.yes or args.dry_run):
        raise ValidationError("with --json, pass --yes to apply the change, or --dry-run to see it")
    return clients.run(call.command.words.rpartition(" ")[2], args, args.config, as_json=as_json)


def _describe_token(token: tokens.Token) -> dict[str, Any]:
    about = {name: getattr(token, name) for name in ("name", "scope", "created_at", "expires_at")}
    return {**about, "expired": token.is_expired, "projects": token.projects and sorted(token.projects)}


@command("token add")
@_NAME
@Argument(
    "--scope SCOPE",
    f"permissions: {', '.join(SCOPES)}; each includes those before it (default: read)",
    SCOPES,
    default="read",
)
@Argument("--project P…", "allow only this project", dest="projects")
@Argument("--expires WHEN", "expiry, such as 12h, 30d, 1y or 2031-01-31 (default: never)")
@Argument("--yes", "create it in a script that no agent runs, with the scope approve or admin too")
def add_token(call: Call) -> Reply:
    """Create a token. It is shown once; only its hash is stored.

    Only a person may create one with the scope approve or admin, or with --yes a script that no agent runs.
    """
    if call.args.scope not in ("read", "write"):
        call.require_person(f"creating a token with the scope {call.args.scope!r}", can_script=call.args.yes)
    args, file = call.args, tokens.find_file(call.config[0])
    secret = tokens.add(file, args.name, args.scope, args.projects or (), args.expires)
    [about] = [_describe_token(one) for one in tokens.list_tokens(file) if one.name == args.name.strip()]
    until = f" until {about['expires_at']:%Y-%m-%d %H:%M} UTC" if about["expires_at"] else ""
    where = ", ".join(about["projects"] or ["all projects"])
    what = "do everything" if args.scope == "admin" else args.scope
    text = f"Created token {about['name']!r}: may {what} in {where}{until}. Copy it now; it is not shown again:"
    return Reply({**about, "token": secret}, text, secret)


@command("token list")
def list_tokens(call: Call) -> Reply:
    """List tokens. Secrets are not stored."""
    return reply_value([_describe_token(one) for one in tokens.list_tokens(tokens.find_file(call.config[0]))], "tokens")


@command("token revoke")
@_NAME
def revoke_token(call: Call) -> Reply:
    """Revoke a token. A running server refuses it from the next request on."""
    gone = tokens.revoke(tokens.find_file(call.config[0]), call.args.name)
    return Reply({"revoked": gone.name}, f"revoked {gone.name}")


# -- completion

_SCRIPTS = {
    "bash": """\
# Completion of alma for bash. Falls back to file names.
_alma() {
    local IFS=$'\\n'
    COMPREPLY=( $(alma __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _alma alma
""",
    "zsh": """\
#compdef alma
# Completion of alma for zsh. Falls back to file names.
_alma() {
    local -a answers
    answers=( ${(f)"$(alma __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"} )
    if (( $#answers )); then compadd -- $answers; else _files; fi
}
compdef _alma alma
if [[ "${funcstack[1]}" == _alma ]]; then _alma; fi
""",
    "fish": """\
# Completion of alma for fish.
complete -c alma -a '(alma __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}


@command("completion")
@Argument("SHELL", "bash, zsh or fish", choices=tuple(_SCRIPTS))
def print_completion(call: Call) -> Reply:
    """Print a shell completion script."""
    script = _SCRIPTS[call.args.shell]
    return Reply({"shell": call.args.shell, "script": script}, script.rstrip("\n"))
