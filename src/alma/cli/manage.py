"""Commands around the memory: set it up, check it, move it, serve it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from ..errors import ConfigError, NotFoundError, StorageError, ValidationError
from ..files import create_private, make_private_folder
from . import render
from .derive import Call, Reply, command, extra, list_choices, reply_value
from .render import count, count_memories, format_bytes

EMBEDDINGS = ("auto", "local", "openai", "azure", "hash", "none")
SCOPES = ("read", "write", "approve", "admin")
_NAME = extra("name", "NAME", "the token's name")
_WORDS_ONLY = "none (words only)"
_OPTIONS = {
    "openai": "  embedding:\n    api_key: ${OPENAI_API_KEY:-}\n    model: text-embedding-3-small\n",
    "azure": (
        "  embedding:\n    endpoint: ${AZURE_OPENAI_ENDPOINT:-}\n    deployment: ${AZURE_OPENAI_DEPLOYMENT:-}\n"
        "    api_key: ${AZURE_OPENAI_API_KEY:-}\n"
    ),
}


# -- set up and check


def write_configuration(project: str, storage: str, embedding: str, folder: str) -> str:
    """Return the text of a new configuration file. A JSON string is a YAML string."""
    template = Path(__file__).with_name("config_template.yaml").read_text(encoding="utf-8")
    return template.format(
        project=json.dumps(project),
        storage=storage,
        folder=folder,
        db_name={"sqlite": "alma.db", "file": "alma.jsonl"}[storage],
        embedding=embedding,
        options=_OPTIONS.get(embedding, ""),
    )


@command(
    "init",
    extra("--project-id", "ID", "whose memory it is (default: the folder's name)"),
    extra("--storage", "STORAGE", "sqlite (default) or file", choices=("sqlite", "file"), default="sqlite"),
    extra("--embedding", "NAME", f"{', '.join(EMBEDDINGS)} (default auto)", choices=EMBEDDINGS, default="auto"),
    extra("--dir", "DIR", "where to write it (default .alma)", default=".alma"),
    extra("--force", "", "overwrite a configuration that is there"),
)
def init(call: Call) -> Reply:
    """Write a configuration file for this folder."""
    from ..config import load
    from ..trust_register import trust_folder

    args, folder = call.args, Path(call.args.dir)
    file, whole = folder / "config.yaml", folder.resolve()
    is_hidden = whole.name == ".alma"
    if file.exists() and not args.force:
        raise ConfigError(f"{file} is there already; --force overwrites it")
    if args.project_id is not None and not args.project_id.strip():
        raise ValidationError("--project-id must not be blank; without it the project has the folder's name")
    project = args.project_id or (whole.parent if is_hidden else whole).name or "my-project"
    text = write_configuration(project, args.storage, args.embedding, ".alma" if is_hidden else ".")
    fresh = file.with_name(f"{file.name}.new")
    try:
        make_private_folder(folder)
        if is_hidden:
            folder.chmod(0o700)
        # It is checked before it takes its place.
        fresh.unlink(missing_ok=True)
        create_private(fresh, text)
        load(fresh)
        fresh.replace(file)
    except OSError as error:
        raise StorageError(f"{file} cannot be made: {error.strerror}") from error
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
    if is_hidden:
        # Where trust cannot be recorded, the file works as far as it needs none.
        with suppress(StorageError, ConfigError):
            trust_folder(whole.parent, text.encode())
    alma = "alma" if file == Path(".alma") / "config.yaml" else f"alma --config {shlex.quote(str(file))}"
    return Reply(
        {"config": file, "project_id": project, "storage": args.storage, "embedding": args.embedding},
        f"wrote {file} for project {project!r}. Next:",
        f'  {alma} learn --agent dev --task "Fix the login test" --outcome success --strategy "Clear the cache"',
        f'  {alma} retrieve "Fix the login test" --agent dev',
    )


@command("doctor", extra("--quick", "", "only whether the memory opens and can find things"), matching=False)
def doctor(call: Call) -> Reply:
    """Check that everything works, and say how to fix what does not. Exit code 1 if something is broken."""
    if call.args.quick:
        health = call.run("health")
        well = f"well: {count_memories(health.memories)} of {health.project_id}"
        text = f"{well}, embedder: {health.embedder or _WORDS_ONLY}" if health.ok else "not well:"
        return Reply(health, text, health.problems, code=0 if health.ok else 1)
    from ..doctor import FAILED, diagnose

    checks = diagnose(call.args.config)
    ok = all(check.state != FAILED for check in checks)
    return Reply({"ok": ok, "checks": checks}, lambda out: render.show_checks(out, checks), code=0 if ok else 1)


@command(
    "demo", extra("--keep", "DIR", "keep the scratch database in this new folder"), extra("--fast", "", "no pauses")
)
def play_demo(call: Call) -> Reply:
    """Watch it learn, on a scratch database."""
    from .demo import play

    return play(call.out, keep=call.args.keep, fast=call.args.fast)


@command(
    "trust",
    extra("path", "PATH", "the folder that holds .alma; default: the nearest here or above", nargs="?"),
    extra("--list", "", "list the trusted folders", group="either"),
    extra("--remove", "", "no longer trust the folder or the memory in it", group="either"),
)
def trust(call: Call) -> Reply:
    """Trust the configuration and the memory that lie in a folder, until the configuration changes."""
    from .. import trust_register as register
    from ..app import list_data_files
    from ..config import DEFAULT_PATH, Config, list_restricted_settings, load

    def read_content(folder: Path) -> bytes:
        file = folder / DEFAULT_PATH
        return file.read_bytes() if file.is_file() else b""

    args, here = call.args, Path.cwd()
    if args.list:
        if args.path is not None:
            raise ValidationError("--list takes no PATH: it lists all trusted folders")
        rows = []
        for name, digest in sorted(register.read_register().folders.items()):
            is_same = register.digest_content(read_content(Path(name))) == digest
            rows.append({"folder": name, "state": "trusted" if is_same else "changed since it was trusted"})
        return reply_value(rows, "folders")
    found = next((place for place in (here, *here.parents) if (place / DEFAULT_PATH).is_file()), here)
    folder = found if args.path is None else Path(args.path).expanduser().absolute()
    # The configuration or its folder may be named as well.
    for part in (DEFAULT_PATH.name, DEFAULT_PATH.parent.name):
        folder = folder.parent if folder.name == part else folder
    if args.remove:
        if not register.remove_folder(folder):
            raise NotFoundError(f"{folder} is not trusted; `alma trust --list` lists the folders that are")
        return Reply({"removed": folder}, f"{folder} is no longer trusted")
    file, content = folder / DEFAULT_PATH, read_content(folder)
    if not file.parent.is_dir():
        raise ConfigError(f"there is no {DEFAULT_PATH.parent} in {folder}, so there is nothing to trust")
    restricted = list_restricted_settings(file) if content else []
    files = list_data_files(file, load(file) if content else Config(project_id="default", storage_dir=file.parent))
    tracked = [str(one.relative_to(folder)) for one in register.trust_folder(folder, content, files)]
    return Reply(
        {"folder": folder, "config": file if content else None, "sets": restricted, "files": files},
        f"trusted {folder}, until {DEFAULT_PATH} changes",
        {"it may now set": restricted, "its files are used": files},
        f"git tracks {', '.join(tracked)}: what a pull brings is used, too" if tracked else "",
    )


# -- the whole memory


@command("reindex", matching=False)
def reindex(call: Call) -> Reply:
    """Embed everything anew with the configured embedder. It can be stopped and run again."""
    from ..inspection import read_embedders

    before, after = (
        one or nothing for one, nothing in zip(read_embedders(call.alma), ("none", _WORDS_ONLY), strict=True)
    )
    moved = call.alma.reindex(call.out.progress)
    done = f"{moved} records embedded anew" if moved else "everything is embedded already"
    return Reply({"from": before, "to": after, "moved": moved}, f"from {before} to {after}", done)


@command("vacuum", matching=False)
def vacuum(call: Call) -> Reply:
    """Leave no trace of deleted memories in the store's files, and give unused space back."""
    from ..inspection import find_store_file

    path, sizes = find_store_file(call.alma), []
    for is_done in (False, True):
        if is_done:
            call.alma.vacuum()
        # The file and what waits beside it to be written into it.
        sizes.append(sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists()))
    freed = max(0, sizes[0] - sizes[1])
    came_back = f"{format_bytes(freed)} came back; {path} takes {format_bytes(sizes[1])}"
    return Reply(
        {"path": path, "bytes_before": sizes[0], "bytes_after": sizes[1], "bytes_freed": freed},
        came_back if freed else f"there was no unused space in {path}",
    )


def _set_exact(stream: IO[str], encoding: str) -> IO[str]:
    """Read or write as in a file, whatever the terminal's encoding: no character lost, no line end changed."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors="strict", newline="\n")
    return stream


@command(
    "export",
    extra("file", "FILE", "a new file ('-': standard output)"),
    extra("--no-vectors", "", "leave the embeddings out; an import makes them anew"),
    matching=False,
)
def export(call: Call) -> Reply | int:
    """Write the whole memory as JSON Lines."""
    from .. import transfer

    target, vectors = Path(call.args.file), not call.args.no_vectors
    if call.args.file == "-":
        stream = _set_exact(sys.stdout, "utf-8")
        for line in transfer.export_lines(call.alma, vectors=vectors):
            stream.write(f"{line}\n")
        return 0
    records = transfer.export_to(call.alma, target, vectors=vectors, progress=call.out.progress)
    size = target.stat().st_size
    text = f"wrote {count(records, 'record')} to {target} ({format_bytes(size)})"
    return Reply({"path": target, "records": records, "bytes": size}, text)


@command("backup", extra("file", "FILE", "a new file; nothing is overwritten"), matching=False)
def backup(call: Call) -> Reply:
    """Copy the store to a new file while it is in use."""
    from .. import transfer

    made = transfer.backup(call.alma, Path(call.args.file), call.out.progress)
    return Reply(made, f"copied to {made.path} ({format_bytes(made.bytes)})")


@command(
    "import",
    extra("file", "FILE", "what `alma export` wrote ('-': standard input)"),
    extra("--dry-run", "", "only say what would become of it"),
    extra("--trusted", "", "your own export: take it as it is", group="either"),
    extra("--yes", "", "the same as --trusted", group="either", dest="trusted"),
    extra("--untrusted", "", "somebody else's: all of it waits for you", group="either"),
    extra("--keep-project", "", "take in another project's memories as that project's"),
)
def import_(call: Call) -> Reply:
    """Take in what `alma export` wrote. Imported twice it changes nothing.

    Whether it is your own export is asked where somebody can answer.
    """
    from .. import transfer

    args, out = call.args, call.out
    source = "standard input" if args.file == "-" else args.file
    can_ask = args.file != "-" and not args.dry_run and not out.as_json and sys.stdin.isatty()
    claims = ""

    def confirm(records: list[Any]) -> bool:
        nonlocal claims
        rules = [one.body["line"] for one in records if one.kind == "rule" and one.status == "active"]
        own = count_memories(len(records) - len(rules))
        claims = f"{count(len(rules), 'active rule')} and {own} recorded as a person's own words"
        if can_ask:
            out.section("active rules", rules)
        return can_ask and out.confirm(f"The file holds {claims}. Is it your own export, to be taken in as it is?")

    try:
        text: Any = nullcontext(_set_exact(sys.stdin, "utf-8-sig"))
        with text if args.file == "-" else open(args.file, encoding="utf-8-sig", newline="\n") as lines:
            taken = transfer.import_from(
                call.alma,
                lines,
                source,
                trusted=True if args.trusted else False if args.untrusted else None,
                keep_project=args.keep_project,
                dry_run=args.dry_run,
                confirm=confirm,
                progress=out.progress,
            )
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{source} cannot be read: {error}") from error
    names = ("added", "updated", "known", "erased", "embedded", "waiting", "left_out")
    numbers = {name: getattr(taken, name) for name in names}
    done = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number)
    review = f"{claims} not taken as such: rules wait for your review. --trusted takes your own export"
    return Reply(
        {"dry_run": args.dry_run, **numbers},
        f"{'would be ' if args.dry_run else ''}{done}" if done else "there was nothing in it",
        review if claims and not can_ask else "",
    )


# -- servers


def _add_options(module: str, *more: Any) -> Callable[[argparse.ArgumentParser], None]:
    """Return a function that adds the options of a server, which is not loaded before."""
    return lambda parser: import_module(module, __package__).add_arguments(parser, *more)


@command("serve", add_arguments=_add_options("..http.server"), own_log=True)
def serve(call: Call) -> int:
    """Serve the memory over HTTP, on this machine unless told otherwise."""
    from ..http import server

    server.serve(server.read_options(call.args, call.args.config))
    return 0


@command("mcp", add_arguments=_add_options("..mcp.command"), own_log=True)
def serve_mcp(call: Call) -> int:
    """Serve the memory over MCP: over standard input and output, or HTTP."""
    from ..mcp import command as server

    server.run(server.read_options(call.args, call.args.config))
    return 0


@command("mcp install", add_arguments=_add_options("..mcp.clients", "install"))
def install_mcp(call: Call) -> int:
    """Put the server into the settings of a client; shows what would change, and asks."""
    from ..mcp import clients

    args, as_json = call.args, call.out.as_json
    if as_json and not (args.yes or args.dry_run):
        raise ValidationError("there is nobody to ask here; pass --yes to do it, or --dry-run to see what would change")
    return clients.run(call.command.words.rpartition(" ")[2], args, args.config, as_json=as_json)


@command("mcp uninstall", add_arguments=_add_options("..mcp.clients", "uninstall"))
def uninstall_mcp(call: Call) -> int:
    """Take the server out of the settings of a client again."""
    return install_mcp(call)


def _describe_token(token: Any) -> dict[str, Any]:
    names = ("name", "scope", "created_at", "expires_at")
    about = {name: getattr(token, name) for name in names} | {"expired": token.is_expired}
    return about | {"projects": None if token.projects is None else sorted(token.projects)}


@command(
    "token add",
    _NAME,
    extra(
        "--scope",
        "SCOPE",
        f"what it may do, each including those before it: {', '.join(SCOPES)}",
        SCOPES,
        default="read",
    ),
    extra("--project", "P", "only this project; may be repeated", dest="projects", action="append"),
    extra("--expires", "WHEN", "such as 12h, 30d, 1y or 2031-01-31; default: never"),
)
def add_token(call: Call) -> Reply:
    """Make a token. It is shown once and not kept."""
    from ..http import tokens

    args, file = call.args, tokens.find_file(call.config[0])
    secret = tokens.add(file, args.name, args.scope, args.projects or (), args.expires)
    [about] = [_describe_token(one) for one in tokens.list_tokens(file) if one.name == args.name.strip()]
    until = f" until {about['expires_at']:%Y-%m-%d %H:%M} UTC" if about["expires_at"] else ""
    where = ", ".join(about["projects"] or ["all projects"])
    what = "do everything" if args.scope == "admin" else args.scope
    text = f"{about['name']} may {what} in {where}{until}. This is the token; it is not shown again:"
    return Reply({**about, "token": secret}, text, secret)


@command("token list")
def list_tokens(call: Call) -> Reply:
    """List tokens. Secrets are not stored."""
    from ..http import tokens

    file = tokens.find_file(call.config[0])
    return reply_value([_describe_token(one) for one in tokens.list_tokens(file)], "tokens")


@command("token revoke", _NAME)
def revoke_token(call: Call) -> Reply:
    """Let a token open nothing any more, in a running server too."""
    from ..http import tokens

    gone = tokens.revoke(tokens.find_file(call.config[0]), call.args.name)
    return Reply({"revoked": gone.name}, f"{gone.name} opens nothing any more")


# -- completion

_SCRIPTS = {
    "bash": """\
# Completion of alma for bash. Where alma knows no answer, files are offered.
_alma() {
    local IFS=$'\\n'
    COMPREPLY=( $(alma __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null) )
}
complete -o default -F _alma alma
""",
    "zsh": """\
#compdef alma
# Completion of alma for zsh. Where alma knows no answer, files are offered.
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


@command("completion", extra("shell", "SHELL", "bash, zsh or fish", choices=tuple(_SCRIPTS)))
def print_completion(call: Call) -> Reply:
    """Print a script that lets your shell complete these commands."""
    script = _SCRIPTS[call.args.shell]
    return Reply({"shell": call.args.shell, "script": script}, script.rstrip("\n"))


def list_completions(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return what the last word may become: commands, options, or the values of an option."""
    *before, typed = words or [""]
    option: argparse.Action | None = None
    for word in before:
        named = None if option else parser._option_string_actions.get(word)
        if option is None:
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    parser = action.choices.get(word, parser)
        option = named if named is not None and named.nargs != 0 else None
    if option is not None:
        values = list_choices(option)
    elif typed.startswith("-"):
        values = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    else:
        values = [value for action in parser._actions if not action.option_strings for value in list_choices(action)]
    return [value for value in values if value.startswith(typed)]
