"""Variables of a person's terminal: those that name settings, and those that an installation records for the reader.

A repository can set any variable (`.claude/settings.json`, `.env`, direnv, containers), and hooks inherit them all. So
hooks, the worker and the commands obey no variable that widens anything. A person adopts one into the settings: with
`install`, `config --adopt` or the command that `status` names.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from alma import people
from alma.errors import ConfigError, PersonRequiredError, ValidationError, unknown
from alma.files import read_content
from alma.hooks.paths import DEFAULTS, PATHS, DataDir, check_setting, find_user_home, read_settings, read_text
from alma.hooks.reader import CLAUDE
from alma.hooks.team import TOKEN_FILE
from alma.models import readers
from alma.models.readers import PROGRAMS
from alma.trust_register import find_tracked_files

TOKEN_VARIABLE = "CLAUDE_SMART_TOKEN"
TOKEN_SETTING = "token_file"
"""The name of a file with the token of the server, in a file of settings."""
ADOPT = "claude-smart config --adopt"
RECORD = "claude-smart config environment record"
_SWITCHES = {
    "CLAUDE_SMART_USE_LOCAL_CLI": ("model", {"1": "on"}),
    "CLAUDE_SMART_ATTENDED": ("programs", {"1": "on"}),
    "CLAUDE_SMART_DASHBOARD_AUTOSTART": ("dashboard_autostart", {"1": "on"}),
    "CLAUDE_SMART_USE_LOCAL_EMBEDDING": ("embedding", {"0": "off"}),
}
"""Variables that switch a setting, and the setting's value for each of theirs."""
_VALUES = {
    "CLAUDE_SMART_HOME": "home",
    "CLAUDE_SMART_STATE_DIR": "state_dir",
    "CLAUDE_SMART_CLI_PATH": "program",
    "CLAUDE_SMART_CLI_TIMEOUT": "program_timeout",
    "CLAUDE_SMART_SERVER": "server",
    "REFLEXIO_URL": "server",
}
"""Variables that hold the value of a setting. Of two for one setting, the first counts."""
_PLACES = ("PATH", "HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA")
_NETWORK = """
    CLAUDE_CONFIG_DIR CODEX_HOME XDG_CONFIG_HOME XDG_CACHE_HOME
    AWS_REGION AWS_DEFAULT_REGION AWS_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE
    CLOUD_ML_REGION GOOGLE_APPLICATION_CREDENTIALS GOOGLE_CLOUD_PROJECT
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
    SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS
""".split()
_CLAUDE = """
    ANTHROPIC_BASE_URL ANTHROPIC_MODEL ANTHROPIC_SMALL_FAST_MODEL ANTHROPIC_DEFAULT_HAIKU_MODEL
    ANTHROPIC_BEDROCK_BASE_URL ANTHROPIC_VERTEX_BASE_URL ANTHROPIC_VERTEX_PROJECT_ID
    CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CODE_SKIP_BEDROCK_AUTH CLAUDE_CODE_SKIP_VERTEX_AUTH
""".split()
_CLAUDE_SECRETS = """
    ANTHROPIC_API_KEY ANTHROPIC_AUTH_TOKEN ANTHROPIC_CUSTOM_HEADERS CLAUDE_CODE_OAUTH_TOKEN
""".split()
_CLOUD_SECRETS = """
    AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_BEARER_TOKEN_BEDROCK
""".split()


class Adoption(NamedTuple):
    """What a variable names: a setting and the value that it would get."""

    variable: str
    setting: str
    value: Any

    @property
    def command(self) -> str:
        """Return the command that adopts it."""
        return f"claude-smart config {self.setting} {shlex.quote(str(self.value))}"


# -- variables that name settings


def find_adoptions(data_dir: DataDir, environ: Mapping[str, str]) -> list[Adoption]:
    """Return what the variables name that the settings do not say already."""
    settings = {**read_settings(data_dir), "home": data_dir.home, "state_dir": data_dir.sessions}
    adoptions: list[Adoption] = []
    for name, (setting, values) in _SWITCHES.items():
        if environ.get(name) in values:
            adoptions.append(Adoption(name, setting, values[environ[name]]))
    for name, setting in _VALUES.items():
        if environ.get(name):
            adoptions.append(Adoption(name, setting, _read_value(setting, environ[name], environ)))
    return [one for one in adoptions if settings[one.setting] != one.value]


def _read_value(setting: str, text: str, environ: Mapping[str, str]) -> Any:
    """Return the value of a setting in the form that the settings file has."""
    if setting == "program":
        return shutil.which(os.path.expanduser(text), path=environ.get("PATH")) or text
    if setting in PATHS:
        return os.path.abspath(os.path.expanduser(text))
    if isinstance(DEFAULTS[setting], int):
        return int(float(text)) if text.replace(".", "", 1).isdigit() else text
    return text


def list_ignored(data_dir: DataDir, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hooks, the worker and the reader ignore, each with the command that adopts it."""
    ignored = {one.variable: one.command for one in find_adoptions(data_dir, environ)}
    if environ.get(TOKEN_VARIABLE) and environ[TOKEN_VARIABLE] != read_token(data_dir):
        ignored[TOKEN_VARIABLE] = ADOPT
    settings = read_settings(data_dir)
    # Without a reader and a server, nothing would use them.
    is_used = settings["model"] == "on" or settings["server"] != "off"
    names = list_variables(settings["reader"]) if is_used else []
    if settings["model"] == "on":
        names += list_secrets(settings["reader"], environ)
    recorded = settings["environment"]
    others = [name for name in names if environ.get(name) and environ[name] != recorded.get(name)]
    return ignored | dict.fromkeys(others, RECORD)


def read_token(data_dir: DataDir) -> str:
    """Return the stored token of the server; empty if there is none."""
    return read_text(os.path.join(data_dir.home, TOKEN_FILE)).strip()


def describe_home(environ: Mapping[str, str]) -> str:
    """Return that HOME is not the home folder that the system records; empty if it is."""
    own = environ.get("USERPROFILE" if os.name == "nt" else "HOME", "")
    system = find_user_home()
    if not own or os.path.realpath(own) == os.path.realpath(system):
        return ""
    return f"HOME is {own}, but the system's home folder is {system}, which hooks without an installation use"


# -- what an installation records


def list_variables(reader: str) -> list[str]:
    """Return the variables that say how a reader reaches its service, without those that log in."""
    if reader == CLAUDE:
        return [*_CLAUDE, *_NETWORK]
    return [*_NETWORK, *(PROGRAMS[reader].variables if reader in PROGRAMS else ())]


def list_secrets(reader: str, environ: Mapping[str, str]) -> list[str]:
    """Return the variables with which a reader logs in; empty if it has a login of its own in its files."""
    if reader == CLAUDE:
        return [] if is_logged_in(environ) else [*_CLAUDE_SECRETS, *_CLOUD_SECRETS]
    return readers.list_secrets(reader, environ) if reader in PROGRAMS else []


def record_environment(environ: Mapping[str, str], *, is_read: bool, reader: str = CLAUDE) -> dict[str, Any]:
    """Return the settings `program` and `environment` for this terminal; empty if an agent runs this command.

    `is_read` says whether the reader may read corrections; without that, no secret is recorded.
    """
    if people.find_agent():
        return {}
    path = _clean_path(environ.get("PATH", ""))
    names = [*_PLACES, *list_variables(reader), *(list_secrets(reader, environ) if is_read else ())]
    values = {name: environ[name] for name in names if environ.get(name)} | {"PATH": path}
    program = find_program(reader, path)
    return {"environment": values, **({"program": program} if program else {})}


def choose_reader(hosts: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return what can read on this machine: Claude if it is there, otherwise the first coding agent that can.

    Those in `hosts` come first. If there is none, or if an agent runs this command, it is Claude.
    """
    if people.find_agent():
        return CLAUDE
    path = _clean_path(environ.get("PATH", ""))
    names = [CLAUDE, *(host for host in hosts if host in PROGRAMS), *PROGRAMS]
    return next((name for name in names if find_program(name, path)), CLAUDE)


def _clean_path(path: str) -> str:
    """Return a PATH without relative folders and without those of the working copy that this is run in."""
    here = Path.cwd()
    top = next((str(one) for one in (here, *here.parents) if (one / ".git").exists()), "")
    folders = [one for one in path.split(os.pathsep) if os.path.isabs(one)]
    return os.pathsep.join(one for one in folders if not top or not Path(one).is_relative_to(top))


def find_program(reader: str, path: str) -> str:
    """Return where the reader's program is on a PATH; empty if it is not there, or if it comes with a repository."""
    if reader not in (CLAUDE, *PROGRAMS):
        return ""
    program = shutil.which(CLAUDE if reader == CLAUDE else PROGRAMS[reader].binary, path=path) or ""
    return "" if not os.path.isabs(program) or find_tracked_files([Path(program)]) else program


def is_logged_in(environ: Mapping[str, str]) -> bool:
    """Return whether Claude Code has a login of its own in its files."""
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(environ.get("HOME", ""), ".claude")
    state = read_text(os.path.join(folder, ".claude.json")) or read_text(f"{folder}.json")
    return os.path.isfile(os.path.join(folder, ".credentials.json")) or '"oauthAccount"' in state


def describe_record(settings: Mapping[str, Any], reader: str = CLAUDE) -> list[str]:
    """Return what was recorded, without the values of variables."""
    if "environment" not in settings:
        return []
    names = ", ".join(settings["environment"])
    lines = [f"variables for the worker and the reader: {names}"]
    if reader == CLAUDE or reader in PROGRAMS:
        program = settings.get("program", DEFAULTS["program"])
        found = program if program != DEFAULTS["program"] else "not found; later: claude-smart config program PATH"
        binary = CLAUDE if reader == CLAUDE else PROGRAMS[reader].binary
        lines.append(f"the program `{binary}`: {found}")
    return lines


# -- a file of settings, for installations without a terminal


def read_settings_file(name: str) -> dict[str, Any]:
    """Return the settings in a JSON file of the person's. Raise ALMAError if it may be anybody else's."""
    if agent := people.find_agent():
        raise PersonRequiredError(f"`claude-smart install --settings` is for a person to decide: {agent}.")
    path = Path(os.path.abspath(name))
    content = read_content(path)
    if content is None:
        raise ValidationError(f"there is no file {path}")
    if os.name == "posix" and (path.stat().st_uid != os.getuid() or path.stat().st_mode & 0o022):
        raise ConfigError(f"{path} must be yours, and writable only by you")
    if find_tracked_files([path]):
        raise ConfigError(f"{path} is tracked by git, so it comes with a repository; use a file of your own")
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValidationError(f"{path} must contain a JSON object with settings")
    for setting, value in values.items():
        if setting not in (*DEFAULTS, TOKEN_SETTING):
            raise ValidationError(f"{path}: {unknown('setting', setting, [*DEFAULTS, TOKEN_SETTING])}")
        if setting != TOKEN_SETTING and (problem := check_setting(setting, value)):
            raise ValidationError(f"{path}: {problem}")
    return values
