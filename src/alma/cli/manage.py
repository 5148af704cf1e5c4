"""Commands around the memory: set it up, check it, move it, serve it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ..errors import ConfigError, NotFoundError, StorageError, ValidationError
from ..files import create_private, make_private_folder
from . import render
from .derive import Call, command, extra, list_choices
from .render import count, count_memories, format_bytes

EMBEDDINGS = ("auto", "local", "openai", "azure", "hash", "none")
SCOPES = ("read", "write", "approve", "admin")
_NAME = extra("name", "NAME", "the token's name")
_WORDS_ONLY = "none (words only)"


# -- set up and check


@command(
    "init",
    extra("--project-id", "ID", "whose memory it is (default: the folder's name)"),
    extra("--storage", "STORAGE", "sqlite (default) or file", choices=("sqlite", "file"), default="sqlite"),
    extra("--embedding", "NAME", f"{', '.join(EMBEDDINGS)} (default auto)", choices=EMBEDDINGS, default="auto"),
    extra("--dir", "DIR", "where to write it (default .alma)", default=".alma"),
    extra("--force", "", "overwrite a configuration that is there"),
)
def init(call: Call) -> int:
    """Write a configuration file for this folder."""
    args, out = call.args, call.out
    folder = Path(args.dir)
    file = folder / "config.yaml"
    is_hidden = folder.resolve().name == ".alma"
    if file.exists() and not args.force:
        raise ConfigError(f"{file} is there already; --force overwrites it")
    whole = folder.resolve()
    project = args.project_id or (whole.parent if is_hidden else whole).name or "my-project"
    text = write_configuration(project, args.storage, args.embedding, ".alma" if is_hidden else ".")
    try:
        make_private_folder(folder)
        if is_hidden:
            folder.chmod(0o700)
    except OSError as error:
        raise StorageError(f"{folder} cannot be made: {error.strerror}") from error
    _replace_config(file, text)
    if is_hidden:
        from ..trust_register import trust_folder

        # Where trust cannot be recorded, the file works as far as it needs none.
        with suppress(StorageError, ConfigError):
            trust_folder(file.resolve().parent.parent, text.encode())
    document = {"config": file, "project_id": project, "storage": args.storage, "embedding": args.embedding}
    if not out.answers_json(document):
        alma = "alma" if file == Path(".alma") / "config.yaml" else f"alma --config {shlex.quote(str(file))}"
        out.print(f"wrote {file} for project {project!r}. Next:")
        out.print(
            f'  {alma} learn --agent dev --task "Fix the login test" --outcome success --strategy "Clear the cache"'
        )
        out.print(f'  {alma} retrieve "Fix the login test" --agent dev')
    return 0


def _replace_config(file: Path, text: str) -> None:
    """Write the file; it is checked before it takes its place."""
    from ..config import load

    fresh = file.with_name(f"{file.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        create_private(fresh, text)
        load(fresh)
        fresh.replace(file)
    except OSError as error:
        raise StorageError(f"{file} cannot be written: {error.strerror}") from error
    finally:
        fresh.unlink(missing_ok=True)


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


_OPTIONS = {
    "openai": "  embedding:\n    api_key: ${OPENAI_API_KEY:-}\n    model: text-embedding-3-small\n",
    "azure": (
        "  embedding:\n    endpoint: ${AZURE_OPENAI_ENDPOINT:-}\n    deployment: ${AZURE_OPENAI_DEPLOYMENT:-}\n"
        "    api_key: ${AZURE_OPENAI_API_KEY:-}\n"
    ),
}


@command("doctor", extra("--quick", "", "only whether the memory opens and can find things"), matching=False)
def doctor(call: Call) -> int:
    """Check that everything works, and say how to fix what does not. Exit code 1 if something is broken."""
    out = call.out
    if call.args.quick:
        with call.open():
            health = call.run("health")
        if not out.answers_json(health):
            held = f"{count_memories(health.memories)} of {health.project_id}"
            well = f"well: {held}, embedder: {health.embedder or _WORDS_ONLY}"
            out.print(well if health.ok else f"not well: {'; '.join(health.problems)}")
        return 0 if health.ok else 1
    from ..doctor import FAILED, diagnose

    checks = diagnose(call.args.config)
    is_healthy = all(check.state != FAILED for check in checks)
    if not out.answers_json({"ok": is_healthy, "checks": checks}):
        render.show_checks(out, checks)
    return 0 if is_healthy else 1


@command(
    "demo", extra("--keep", "DIR", "keep the scratch database in this new folder"), extra("--fast", "", "no pauses")
)
def play_demo(call: Call) -> int:
    """Watch it learn, on a scratch database."""
    from .demo import play

    return play(call.out, keep=call.args.keep, fast=call.args.fast)


@command(
    "trust",
    extra("path", "PATH", "the folder that holds .alma; default: the nearest here or above", nargs="?"),
    extra("--list", "", "list the trusted folders", group="either"),
    extra("--remove", "", "no longer trust the folder or the memory in it", group="either"),
)
def trust(call: Call) -> int:
    """Trust the configuration and the memory that lie in a folder, until the configuration changes."""
    args, out = call.args, call.out
    from .. import trust_register
    from ..config import DEFAULT_PATH

    if args.list:
        if args.path is not None:
            raise ValidationError("--list takes no PATH: it lists all trusted folders")
        return _list_trusted(call)
    here = Path.cwd()
    folder = next((place for place in (here, *here.parents) if (place / DEFAULT_PATH).is_file()), here)
    if args.path is not None:
        named = Path(args.path).expanduser().absolute()
        parents = (named.parent.parent, named.parent)
        inside = (place for place in parents if named in (place / DEFAULT_PATH, place / DEFAULT_PATH.parent))
        folder = next(inside, named)
    if not args.remove:
        return _trust_folder(call, folder)
    if not trust_register.remove_folder(folder):
        raise NotFoundError(f"{folder} is not trusted; `alma trust --list` lists the folders that are")
    return out.report({"removed": folder}, f"{folder} is no longer trusted")


def _trust_folder(call: Call, folder: Path) -> int:
    from ..app import list_data_files
    from ..config import DEFAULT_PATH, Config, list_restricted_settings, load
    from ..trust_register import trust_folder

    file, out = folder / DEFAULT_PATH, call.out
    if not file.parent.is_dir():
        raise ConfigError(f"there is no {DEFAULT_PATH.parent} in {folder}, so there is nothing to trust")
    content = file.read_bytes() if file.is_file() else b""
    restricted = list_restricted_settings(file) if content else []
    config = load(file) if content else Config(project_id="default", storage_dir=file.parent)
    files = list_data_files(file, config)
    tracked = trust_folder(folder, content, files)
    document = {"folder": folder, "config": file if content else None, "sets": restricted, "files": files}
    if not out.answers_json(document):
        out.print(f"trusted {folder}, until {DEFAULT_PATH} changes")
        if restricted:
            out.print(f"  it may now set: {', '.join(restricted)}")
        if files:
            out.print(f"  its files are used: {', '.join(str(file.relative_to(folder)) for file in files)}")
        if tracked:
            names = ", ".join(str(file.relative_to(folder)) for file in tracked)
            out.print(f"  git tracks {names}: what a pull brings is used, too")
    return 0


def _list_trusted(call: Call) -> int:
    from .. import trust_register
    from ..config import DEFAULT_PATH

    rows = []
    for name, digest in sorted(trust_register.read_register().folders.items()):
        file = Path(name) / DEFAULT_PATH
        content = file.read_bytes() if file.is_file() else b""
        is_same = trust_register.digest_content(content) == digest
        rows.append({"folder": name, "state": "trusted" if is_same else "changed since it was trusted"})
    call.out.answer(rows, "folders")
    return 0


# -- the whole memory


@command("reindex", matching=False)
def reindex(call: Call) -> int:
    """Embed everything anew with the configured embedder. It can be stopped and run again."""
    from ..inspection import read_embedders

    out = call.out
    with call.open() as alma:
        held, configured = read_embedders(alma)
        before, after = held or "none", configured or _WORDS_ONLY
        if not out.as_json:
            out.print(f"from {before} to {after}")
        with out.progress("embedding") as progress:
            moved = alma.reindex(progress)
    return out.report(
        {"from": before, "to": after, "moved": moved},
        f"{moved} records embedded anew" if moved else "everything is embedded already",
    )


@command("vacuum", matching=False)
def vacuum(call: Call) -> int:
    """Leave no trace of deleted memories in the store's files, and give unused space back."""
    from ..inspection import find_store_file

    def measure() -> int:
        """Count the file and what waits beside it to be written into it."""
        return sum(part.stat().st_size for part in (path, Path(f"{path}-wal")) if part.exists())

    out = call.out
    with call.open() as alma:
        path = find_store_file(alma)
        before = measure()
        alma.vacuum()
        after = measure()
    freed = max(0, before - after)
    if not out.answers_json({"path": path, "bytes_before": before, "bytes_after": after, "bytes_freed": freed}):
        came_back = f"{format_bytes(freed)} came back; {path} takes {format_bytes(after)}"
        out.print(came_back if freed else f"there was no unused space in {path}")
    return 0


@command(
    "export",
    extra("file", "FILE", "a new file ('-': standard output)"),
    extra("--no-vectors", "", "leave the embeddings out; an import makes them anew"),
    matching=False,
)
def export(call: Call) -> int:
    """Write the whole memory as JSON Lines."""
    from .. import transfer

    args, out = call.args, call.out
    with call.open() as alma:
        if args.file == "-":
            _set_exact(sys.stdout, "utf-8")
            for line in transfer.export_lines(alma, vectors=not args.no_vectors):
                sys.stdout.write(f"{line}\n")
            return 0
        target = Path(args.file)
        with out.progress("exporting") as progress:
            records = transfer.export_to(alma, target, vectors=not args.no_vectors, progress=progress)
    size = target.stat().st_size
    return out.report(
        {"path": target, "records": records, "bytes": size},
        f"wrote {count(records, 'record')} to {target} ({format_bytes(size)})",
    )


@command("backup", extra("file", "FILE", "a new file; nothing is overwritten"), matching=False)
def backup(call: Call) -> int:
    """Copy the store to a new file while it is in use."""
    from .. import transfer

    with call.open() as alma, call.out.progress("copying") as progress:
        made = transfer.backup(alma, Path(call.args.file), progress)
    return call.out.report(made, f"copied to {made.path} ({format_bytes(made.bytes)})")


@command(
    "import",
    extra("file", "FILE", "what `alma export` wrote ('-': standard input)"),
    extra("--dry-run", "", "only say what would become of it"),
    extra("--trusted", "", "your own export: take it as it is", group="either"),
    extra("--yes", "", "the same as --trusted", group="either", dest="trusted"),
    extra("--untrusted", "", "somebody else's: all of it waits for you", group="either"),
    extra("--keep-project", "", "take in another project's memories as that project's"),
)
def import_(call: Call) -> int:
    """Take in what `alma export` wrote. Imported twice it changes nothing.

    Whether it is your own export is asked where somebody can answer.
    """
    from .. import transfer

    args, out = call.args, call.out
    can_ask = args.file != "-" and not args.dry_run and not out.as_json and sys.stdin.isatty()
    claims: list[Any] = []

    def confirm(records: list[Any]) -> bool:
        claims.extend(records)
        if not can_ask:
            return False
        rules = [one.body["line"] for one in records if _is_active_rule(one)]
        for rule in rules[:20]:
            out.line(f"  {rule}")
        if len(rules) > 20:
            out.print(f"  and {len(rules) - 20} more")
        question = f"The file holds {_describe_claims(records)}. Is it your own export, to be taken in as it is?"
        return out.confirm(question)

    with call.open() as alma, _open_text(args.file) as source, out.progress("importing") as progress:
        taken = transfer.import_from(
            alma,
            source,
            "standard input" if args.file == "-" else args.file,
            trusted=True if args.trusted else False if args.untrusted else None,
            keep_project=args.keep_project,
            dry_run=args.dry_run,
            confirm=confirm,
            progress=progress,
        )
    names = ("added", "updated", "known", "erased", "embedded", "waiting", "left_out")
    numbers = {name: getattr(taken, name) for name in names}
    if not out.answers_json({"dry_run": args.dry_run, **numbers}):
        said = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number)
        out.print(f"{'would be ' if args.dry_run else ''}{said}" if said else "there was nothing in it")
        if claims and not can_ask:
            review = "not taken as such: rules wait for your review. --trusted takes your own export"
            out.print(f"{_describe_claims(claims)} {review}")
    return 0


def _is_active_rule(record: Any) -> bool:
    return bool(record.kind == "rule" and record.status == "active")


def _describe_claims(claims: list[Any]) -> str:
    rules = sum(map(_is_active_rule, claims))
    own = len(claims) - rules
    parts = [count(rules, "active rule")] if rules else []
    parts += [f"{count_memories(own)} recorded as a person's own words"] if own else []
    return " and ".join(parts)


@contextmanager
def _open_text(source: str) -> Iterator[IO[str]]:
    try:
        if source == "-":
            _set_exact(sys.stdin, "utf-8-sig")
            yield sys.stdin
        else:
            with open(source, encoding="utf-8-sig", newline="\n") as file:
                yield file
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"{'standard input' if source == '-' else source} cannot be read: {error}") from error


def _set_exact(stream: IO[str], encoding: str) -> None:
    """Read or write as in a file, whatever the terminal's encoding: no character lost, no line end changed."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=encoding, errors="strict", newline="\n")


# -- servers


def add_serve_arguments(parser: argparse.ArgumentParser) -> None:
    from ..http import server

    server.add_arguments(parser)


@command("serve", add_arguments=add_serve_arguments, own_log=True)
def serve(call: Call) -> int:
    """Serve the memory over HTTP, on this machine unless told otherwise."""
    from ..http import server

    server.serve(server.read_options(call.args, call.args.config))
    return 0


def add_mcp_arguments(parser: argparse.ArgumentParser) -> None:
    from ..mcp import command as server

    server.add_arguments(parser)


@command("mcp", add_arguments=add_mcp_arguments, own_log=True)
def serve_mcp(call: Call) -> int:
    """Serve the memory over MCP: over standard input and output, or HTTP."""
    from ..mcp import command as server

    server.run(server.read_options(call.args, call.args.config))
    return 0


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    from ..mcp import clients

    clients.add_arguments(parser, parser.prog.rpartition(" ")[2])


@command("mcp install", add_arguments=add_client_arguments)
def install_mcp(call: Call) -> int:
    """Put the server into the settings of a client; shows what would change, and asks."""
    from ..mcp import clients

    args, out = call.args, call.out
    if out.as_json and not (args.yes or args.dry_run):
        raise ValidationError("there is nobody to ask here; pass --yes to do it, or --dry-run to see what would change")
    action = call.command.words.rpartition(" ")[2]
    return clients.run(action, args, args.config, as_json=out.as_json, say=out.print)


@command("mcp uninstall", add_arguments=add_client_arguments)
def uninstall_mcp(call: Call) -> int:
    """Take the server out of the settings of a client again."""
    return install_mcp(call)


def _find_tokens(call: Call) -> Path:
    """Return the file beside the configuration, which must be there: a token for nothing helps nobody."""
    from ..app import read_config
    from ..http import tokens

    return tokens.find_file(read_config(call.args.config)[0])


def _describe_token(token: Any) -> dict[str, Any]:
    names = ("name", "scope", "projects", "created_at", "expires_at")
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
def add_token(call: Call) -> int:
    """Make a token. It is shown once and not kept."""
    from ..http import tokens

    args, out, file = call.args, call.out, _find_tokens(call)
    secret = tokens.add(file, args.name, args.scope, args.projects or (), args.expires)
    [about] = [_describe_token(one) for one in tokens.list_tokens(file) if one.name == args.name.strip()]
    if not out.answers_json({**about, "token": secret}):
        what = "do everything" if about["scope"] == "admin" else about["scope"]
        until = f" until {about['expires_at']:%Y-%m-%d %H:%M} UTC" if about["expires_at"] else ""
        where = ", ".join(about["projects"] or ["all projects"])
        out.line(f"{about['name']} may {what} in {where}{until}. This is the token; it is not shown again:")
        out.print(secret)
    return 0


@command("token list")
def list_tokens(call: Call) -> int:
    """List tokens. Secrets are not stored."""
    from ..http import tokens

    call.out.answer([_describe_token(one) for one in tokens.list_tokens(_find_tokens(call))], "tokens")
    return 0


@command("token revoke", _NAME)
def revoke_token(call: Call) -> int:
    """Let a token open nothing any more, in a running server too."""
    from ..http import tokens

    gone = tokens.revoke(_find_tokens(call), call.args.name)
    if not call.out.answers_json({"revoked": gone.name}):
        call.out.line(f"{gone.name} opens nothing any more")
    return 0


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
def print_completion(call: Call) -> int:
    """Print a script that lets your shell complete these commands."""
    script = _SCRIPTS[call.args.shell]
    return call.out.report({"shell": call.args.shell, "script": script}, script.rstrip("\n"))


def list_completions(parser: argparse.ArgumentParser, words: list[str]) -> list[str]:
    """Return what the last word may become: commands, options, or the values of an option."""
    *before, typed = words or [""]
    option: argparse.Action | None = None
    for word in before:
        if option is not None:
            option = None
            continue
        named = parser._option_string_actions.get(word)
        option = named if named is not None and named.nargs != 0 else None
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
    if option is not None:
        values = list_choices(option)
    elif typed.startswith("-"):
        values = [flag for flag in parser._option_string_actions if flag.startswith("--")]
    else:
        values = [value for action in parser._actions if not action.option_strings for value in list_choices(action)]
    return [value for value in values if value.startswith(typed)]
