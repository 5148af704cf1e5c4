"""What a command that failed and then worked in another form teaches."""

# ruff: noqa: E501 - a command, its error and its cure read best in one line.
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alma.engine.distil.fixes import lesson, related

# (failed, error, worked, what the rule must name)
LESSONS: list[tuple[str, str, str, tuple[str, ...]]] = [
    # -- a program that is not here
    ("python manage.py migrate", "zsh: command not found: python", "python3 manage.py migrate", ("`python`", "`python3`")),
    ("pip install requests", "bash: pip: command not found", "python3 -m pip install requests", ("`python3 -m pip`",)),
    ("rg TODO src", "/bin/sh: 1: rg: not found", "grep -rn TODO src", ("`rg`", "`grep")),
    ("pytest -q", "bash: line 1: pytest: command not found", "uv run pytest -q", ("`uv run pytest`",)),
    ("pytest -q", "zsh: command not found: pytest", ".venv/bin/pytest -q", ("`.venv/bin/pytest`",)),
    ("jq . a.json", "bash: jq: command not found", "brew install jq && jq . a.json", ("`jq`", "brew install jq")),
    ("yarn build", "'yarn' is not recognized as an internal or external command,\noperable program or batch file.", "pnpm build", ("`yarn`", "`pnpm`")),
    ("mvnw test", "mvnw : The term 'mvnw' is not recognized as the name of a cmdlet, function, script file", ".\\mvnw test", (".\\mvnw",)),
    ("gsed -i s/a/b/ x", "fish: Unknown command: gsed", "sed -i '' s/a/b/ x", ("`gsed`", "`sed`")),
    ("timeout 60 make test", "zsh: command not found: timeout", "make test", ("`timeout`", "without it")),
    ("redis-cli ping", "zsh: command not found: redis-cli", "docker compose exec cache redis-cli ping", ("docker compose exec cache redis-cli",)),
    ("tsc --noEmit", "sh: tsc: command not found", "npx tsc --noEmit", ("`npx tsc`",)),
    # -- options and subcommands
    ("sed -i 's/a/b/' f.txt", 'sed: 1: "f.txt": invalid command code f', "sed -i '' 's/a/b/' f.txt", ("sed",)),
    ("ls --color=auto", "ls: unrecognized option '--color=auto'\nusage: ls [-abc]", "ls -G", ("--color=auto", "-G")),
    ("grep -P '\\d+' log", "grep: invalid option -- P\nusage: grep [-abc]", "grep -E '[0-9]+' log", ("-P", "-E")),
    ("pytest --cov=src", "pytest: error: unrecognized arguments: --cov=src", "pytest", ("--cov=src", "leave it out")),
    ("cargo test --verbos", "error: unexpected argument '--verbos' found", "cargo test --verbose", ("--verbos", "--verbose")),
    ("go test -race2 ./...", "flag provided but not defined: -race2", "go test -race ./...", ("-race2", "-race")),
    ("npm run tests", 'npm error Missing script: "tests"', "npm run test", ("`tests`", "npm run test")),
    ("git swich main", "git: 'swich' is not a git command. See 'git --help'.", "git switch main", ("swich", "git switch main")),
    ("make check-all", "make: *** No rule to make target 'check-all'.  Stop.", "make check", ("check-all", "make check")),
    ("docker compose logs web", "no such service: web", "docker compose logs app", ("app",)),
    # -- the shell
    ("cd app && npm test", "At line:1 char:8\nThe token '&&' is not a valid statement separator in this version.", "cd app; npm test", ("`&&`", "`;`")),
    ("ls src/*.vue", "zsh: no matches found: src/*.vue", "find src -name '*.vue'", ("src/*.vue",)),
    ("pip install foo[extra]", "zsh: no matches found: foo[extra]", "pip install 'foo[extra]'", ("foo[extra]",)),
    ('git commit -m "use `make` here"', "bash: make: command not found", "git commit -m 'use make here'", ("backticks", "git commit")),
    ('python -c "for i in x: print(i) else: pass"', '  File "<string>", line 1\nSyntaxError: invalid syntax', "python /tmp/check.py", ("python -c", "file")),
    # -- where it is run, and paths
    ("npm test", "npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/work/package.json'", "cd frontend && npm test", ("frontend",)),
    ("git status", "fatal: not a git repository (or any of the parent directories): .git", "cd repo && git status", ("repo",)),
    ("cargo build", "error: could not find `Cargo.toml` in `/work` or any parent directory", "cd core && cargo build", ("core",)),
    ("pytest tests/test_api.py", "ERROR: file or directory not found: tests/test_api.py", "pytest backend/tests/test_api.py", ("backend/tests/test_api.py", "tests/test_api.py")),
    ("cat config.yml", "cat: config.yml: No such file or directory", "cat deploy/config.yml", ("deploy/config.yml",)),
    ("docker compose up -d", "no configuration file provided: not found", "docker compose -f docker/compose.yml up -d", ("docker/compose.yml",)),
    # -- what is missing
    ("python app.py", "Traceback (most recent call last):\nModuleNotFoundError: No module named 'flask'", "pip install flask && python app.py", ("`flask`", "pip install flask")),
    ("python -m app", "ModuleNotFoundError: No module named 'app'", "PYTHONPATH=src python -m app", ("PYTHONPATH=src",)),
    ("python run.py", "ModuleNotFoundError: No module named 'numpy'", ".venv/bin/python run.py", (".venv/bin/python",)),
    ("node server.js", "Error: Cannot find module 'express'", "npm install && node server.js", ("express", "npm install")),
    # -- how it is run
    ("npm test", "RERUN  src/a.test.ts\nPASS  Waiting for file changes...\npress h to show help, press q to quit", "npm test -- --run", ("npm test", "--run")),
    ("npm test", "Command timed out after 120000 ms", "CI=true npm test", ("CI=true",)),
    ("npm install", "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree", "npm install --legacy-peer-deps", ("--legacy-peer-deps",)),
    ("pip install black", "error: externally-managed-environment", "pip install --user --break-system-packages black", ("--break-system-packages",)),
    ("npm run dev", "Error: listen EADDRINUSE: address already in use :::3000", "PORT=3001 npm run dev", ("PORT=3001",)),
    ("git push", "fatal: The current branch fix has no upstream branch.", "git push -u origin fix", ("-u origin fix",)),
    ("docker exec -it db psql", "the input device is not a TTY", "docker exec -i db psql", ("docker exec", "-i")),
    ("npm run build", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", "NODE_OPTIONS=--max-old-space-size=8192 npm run build", ("NODE_OPTIONS",)),
    ("docker ps", "permission denied while trying to connect to the Docker daemon socket", "sudo docker ps", ("sudo docker ps",)),
    ("./deploy.sh", "zsh: permission denied: ./deploy.sh", "bash ./deploy.sh", ("bash",)),
    ("git pull", "fatal: Need to specify how to reconcile divergent branches.", "git pull --rebase", ("--rebase",)),
    ("psql -U admin app", 'psql: error: FATAL:  role "admin" does not exist', "psql -U app_owner app", ("admin", "app_owner")),
    ("sqlite3 a.db 'select x from logs'", "Error: in prepare, no such table: logs", "sqlite3 a.db .tables", (".tables", "logs")),
]  # fmt: skip

# (failed, error, worked): the cure was an edit, or nothing was wrong, or the second has nothing to do with the first.
NONE: list[tuple[str, str, str]] = [
    ("npm test", "FAIL src/a.test.ts\n  ● adds\n    expect(received).toBe(expected)", "npm test"),
    ("pytest -q", "E   AssertionError: assert 3 == 4\n1 failed, 20 passed", "pytest -q"),
    ("pytest tests/a.py -x", "E   AssertionError: assert 3 == 4", "pytest tests/a.py -v"),
    ("pytest tests/a.py::test_b", "NameError: name 'x' is not defined", "pytest tests/a.py"),
    ("go test ./...", "--- FAIL: TestParse (0.00s)\nFAIL", "go test ./pkg/..."),
    ("cargo build", "error[E0308]: mismatched types", "cargo build --release"),
    ("npx tsc --noEmit", "src/a.ts(3,5): error TS2322: Type 'string' is not assignable", "npx tsc --noEmit -p ."),
    ("npm run build", "Type error: Argument of type 'string' is not assignable", "npm run lint"),
    ("git push", "Everything up-to-date\nExit Code: 0", "git status"),
    ("npm test", "zsh: command not found: npm", "ls"),
    (
        "grep -n error app.log",
        "12: error: could not connect\n15: error: command not found: foo",
        "grep -n warn app.log",
    ),
    ("cat src/errors.py", "// raised when the file is not found", "cat src/main.py"),
    ("git diff", "+    raise FileNotFoundError('No such file or directory')", "git diff --stat"),
    ("make test", "12 passed in 3.1s", "make lint"),
    ("python app.py", "ModuleNotFoundError: No module named 'app.models'", "python app.py"),
    ("./gradlew test", "FAILURE: Build failed with an exception.", "./gradlew installDebug"),
    ("terraform plan", "Error: Unsupported argument on main.tf line 3", "terraform apply"),
    ("", "error", "ls"),
    ("ls", "", ""),
]

RELATED = [
    ("npm test", "npm test -- --run"),
    ("npm test", "CI=true npm test"),
    ("npm test", "npm test"),
    ("docker-compose up -d", "docker compose up -d"),
    ("python a.py", "python3 a.py"),
    ("pytest -q", "uv run pytest -q"),
    ("psql -c '\\l'", "docker exec db psql -c '\\l'"),
    ("cd x && make", "make -C x"),
    ("python app.py", "pip install flask"),
    ("node a.js", "npm install"),
    ("jq . a", "brew install jq"),
    ("timeout 5 ./run.sh", "./run.sh"),
    ("cat a/b.txt", "Get-Content a/b.txt"),
]

UNRELATED = [
    ("npm test", "ls"),
    ("npm test", "git status"),
    ("git push", "git status"),
    ("npm run build", "npm run lint"),
    ("pytest -q", "cat tests/test_a.py"),
    ("make", "echo done"),
    ("cd a && ls", "cd a && git log"),
    ("cat a.txt", "sed -n 1,20p b.txt"),
    ("npm test | head -5", "ls | head -5"),
    ("cargo build", "npm install"),
    ("", "ls"),
]


@pytest.mark.parametrize(("failed", "error", "worked", "named"), LESSONS)
def test_another_form_of_a_command_is_learned(failed: str, error: str, worked: str, named: tuple[str, ...]) -> None:
    told = lesson(failed, error, worked)
    assert told is not None
    assert all(name in told.rule for name in named), told.rule
    assert told.trigger.startswith("running ")
    assert len(told.rule) <= 300


@pytest.mark.parametrize(("failed", "error", "worked"), NONE)
def test_there_is_nothing_to_learn(failed: str, error: str, worked: str) -> None:
    assert lesson(failed, error, worked) is None


@pytest.mark.parametrize(("failed", "worked"), RELATED)
def test_another_form_of_a_command_is_known(failed: str, worked: str) -> None:
    assert related(failed, worked)


@pytest.mark.parametrize(("failed", "worked"), UNRELATED)
def test_another_command_is_not_another_form(failed: str, worked: str) -> None:
    assert not related(failed, worked)


def test_names_to_use_and_not_to_use() -> None:
    told = lesson("docker-compose up -d", "zsh: command not found: docker-compose", "docker compose up -d")
    assert told is not None
    assert told.prefer == ("docker compose",)
    assert told.avoid == ("docker-compose",)
    assert told.trigger == "running docker-compose up"
    assert "command not found" in told.why


def test_no_secret_and_no_home_folder_is_told() -> None:
    secret = "gh" + "p_" + "Zk3vQ9xT7bLw2RfY8sHd5NcJ4mGp6AeU1oXz"
    told = lesson(
        "cat /Users/jane/app/conf.yml",
        f"cat: /Users/jane/app/conf.yml: No such file or directory (token {secret})",
        f"TOKEN={secret} cat /home/jane/app/deploy/conf.yml",
    )
    assert told is not None
    everything = repr(told)
    assert secret not in everything
    assert "jane" not in everything
    assert "~/app" in told.rule


@pytest.mark.parametrize(
    ("failed", "error", "worked", "lasting"),
    [
        ("python a.py", "bash: python: command not found", "python3 a.py", True),
        ("cmake --install build --dest x", "unknown option --dest", "cmake --install build --prefix x", True),
        ("npm test", "Command timed out after 2m. Watch Usage: Press w", "npm test -- --watchAll=false", True),
        ("alembic upgrade head", "FAILED: No config file found", "cd backend && alembic upgrade head", True),
        ("go test ./...", "go: go.mod file not found in current directory", "cd api && go test ./...", True),
        ("psql -U admin -d x", 'FATAL:  role "admin" does not exist', "psql -U postgres -d x", True),
        ("cat src/limitr.ts", "cat: src/limitr.ts: No such file or directory", "cat src/limiter.ts", False),
        ("node a.js", "Error: Cannot find module 'zod'", "npm install zod && node a.js", False),
    ],
)
def test_what_may_not_come_again_does_not_last(failed: str, error: str, worked: str, lasting: bool) -> None:
    told = lesson(failed, error, worked)
    assert told is not None
    assert told.lasting is lasting


def test_a_role_is_named_with_its_option() -> None:
    told = lesson("psql -U admin -d x", 'FATAL:  role "admin" does not exist', "psql -U postgres -d x")
    assert told is not None
    assert (told.prefer, told.avoid) == (("-U postgres",), ("-U admin",))


def test_a_rule_stays_short() -> None:
    words = " ".join(f"--option-{number}=value" for number in range(200))
    told = lesson(
        f"build {words}", "build: unknown option --option-7", f"build {words.replace('--option-7=', '--opt-7=')}"
    )
    assert told is None or len(told.rule) <= 300


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_accepted(failed: str, error: str, worked: str) -> None:
    told = lesson(failed, error, worked)
    assert told is None or 0 < len(told.rule) <= 300
    related(failed, worked)


PIECES = st.sampled_from(
    [
        "npm",
        "test",
        "git",
        "&&",
        "|",
        ";",
        "cd a",
        "'",
        '"',
        "`",
        "$(",
        ")",
        "\\",
        "-x",
        "--y=1",
        "A=b",
        "\n",
        "# c",
        ">",
        "2>&1",
        "docker",
        "exec",
        "/home/jane/x",
        "*.go",
        "python",
        "-c",
        " ",
        "sudo",
        "timeout 5",
        "<<EOF",
        "uv run",
    ]
)
LINES = st.lists(PIECES, max_size=8).map(" ".join)
ERRORS = st.sampled_from(
    [
        "command not found: npm",
        "unknown option -x",
        "No such file or directory: a",
        "error",
        "",
        "SyntaxError",
        "EADDRINUSE",
        "no matches found: *.go",
        "No module named x",
        "not a git repository",
        "permission denied",
        'role "x" does not exist',
    ]
)


@given(LINES, ERRORS, LINES)
@settings(max_examples=300, deadline=None)
def test_any_commands_are_accepted(failed: str, error: str, worked: str) -> None:
    told = lesson(failed, error, worked)
    assert told is None or (len(told.rule) <= 300 and "/home/jane" not in told.rule)
    assert lesson(failed, error, failed) is None
