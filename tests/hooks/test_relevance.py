"""Rules as people teach them, and what they fit: half a guess at what people mean, half a measure of the floor.

The first cases set the floor. The last ones, with rules of their own, were written after it was set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from alma.hooks import relevance
from alma.hooks.inject import ReadOnlyRules
from alma.hooks.paths import DataDir

PROJECT = "git:github.com/acme/app"
Teach = Callable[..., str]


class Taught(NamedTuple):
    rule: str
    trigger: str = ""
    prefer: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    why: str = ""


class Case(NamedTuple):
    said: str
    """A prompt; a command after `$ `; a file that is edited after `> `, and after ` :: ` what is written."""
    fitting: tuple[str, ...] = ()


RULES: dict[str, Taught] = {
    "pnpm": Taught("Use pnpm, not npm", "", ("pnpm",), ("npm",)),
    "vitest-run": Taught(
        "Use `npm test -- --run`",
        "running the tests",
        ("npm test -- --run",),
        ("npm test",),
        "npm test hangs in watch mode",
    ),
    "imperative": Taught("Write commit messages in the imperative, without a scope prefix", "committing"),
    "no-main-push": Taught("Never push directly to main; open a pull request", "", (), ("git push origin main",)),
    "no-coauthor": Taught("Do not add Co-Authored-By lines to commits", "", (), ("Co-Authored-By",)),
    "uv": Taught("Install Python packages with uv", "installing a Python package", ("uv",), ("pip",)),
    "no-any": Taught("Never use any in TypeScript; use unknown", "writing TypeScript", ("unknown",), ("any",)),
    "no-console": Taught("Use the logger instead of console.log", "", ("logger",), ("console.log",)),
    "tabs": Taught("Indent Go files with tabs", "editing Go files", ("tabs",), ("spaces",)),
    "alembic": Taught("Create migrations with alembic revision --autogenerate", "", ("alembic",), ()),
    "reversible": Taught("Every migration must have a working downgrade", "writing a migration"),
    "no-mock-db": Taught("Do not mock the database in integration tests; use the test container", "", (), ("mock",)),
    "port": Taught("The dev server runs on port 5199, not 3000", "starting the dev server", ("5199",), ("3000",)),
    "tokens": Taught("Refresh tokens expire after 15 minutes in staging", "debugging a login failure in staging"),
    "changelog": Taught("Add a line to CHANGELOG.md for every user-visible change", "", ("CHANGELOG.md",), ()),
    "utc": Taught("Store timestamps in UTC and convert them only when rendering", "working with dates or timestamps"),
    "cents": Taught("Money is stored in integer cents, never in floats", "handling money amounts", (), ("float",)),
    "no-barrel": Taught("Do not create index.ts barrel files", "", (), ("index.ts",)),
    "dayjs": Taught("Use dayjs, moment is banned", "", ("dayjs",), ("moment",)),
    "css-modules": Taught("Style components with CSS modules, no inline styles", "styling a component"),
    "docker-compose": Taught(
        "Use `docker compose`, not `docker-compose`", "", ("docker compose",), ("docker-compose",)
    ),
    "no-sudo": Taught("Never use sudo in scripts", "", (), ("sudo",)),
    "rg": Taught("Search with rg instead of grep -r", "searching the code", ("rg",), ("grep -r",)),
    "feature-flags": Taught("Put unfinished features behind a flag in flags.yaml", "", ("flags.yaml",), ()),
    "no-emoji": Taught("No emoji in documentation or commit messages"),
    "german-ui": Taught("User-facing strings are German and go through i18n keys", "adding text to the UI"),
    "redis-local": Taught(
        "Start redis with make redis before running the worker", "running the worker", ("make redis",), ()
    ),
    "terraform-plan": Taught(
        "Always show terraform plan before terraform apply", "", ("terraform plan",), ("terraform apply",)
    ),
    "kubectl-context": Taught("Check the kubectl context before touching the cluster", "", ("kubectl",), ()),
    "small-prs": Taught("Keep pull requests under 400 lines", "opening a pull request"),
    "pytest-x": Taught("Run pytest with -x -q", "", ("pytest -x -q",), ()),
    "ruff-format": Taught("Format Python with ruff format, not black", "", ("ruff format",), ("black",)),
    "explain-first": Taught("Explain the plan before editing more than three files"),
    "short-answers": Taught("Keep answers short; no summaries at the end"),
    "no-new-deps": Taught("Ask before adding a dependency", "adding a dependency"),
    "proto-gen": Taught(
        "Regenerate protobuf code with make proto after changing .proto files", "", ("make proto",), ()
    ),
    "snake-api": Taught("JSON fields of the public API are snake_case", "designing API responses"),
    "retry-backoff": Taught(
        "Webhook deliveries retry with exponential backoff, at most five times", "working on webhooks"
    ),
    "sql-upper": Taught("Write SQL keywords in upper case", "writing SQL"),
    "s3-bucket": Taught(
        "Uploads go to the bucket acme-media-eu, not acme-media", "", ("acme-media-eu",), ("acme-media",)
    ),
}

SETTING: tuple[Case, ...] = (
    Case("install lodash with npm please", ("pnpm",)),
    Case("run the tests", ("vitest-run",)),
    Case("commit this", ("imperative", "no-coauthor", "no-emoji")),
    Case("write a migration that adds an email column to users", ("reversible", "alembic")),
    Case("the login fails in staging after a while, can you debug it?", ("tokens",)),
    Case("add a price field with the amount of money to the invoice", ("cents",)),
    Case("start the dev server and open the page", ("port",)),
    Case("style the login component so it looks like the mock-up", ("css-modules",)),
    Case("open a pull request for this branch", ("small-prs", "no-main-push")),
    Case("why does moment show the wrong month here?", ("dayjs",)),
    Case("webhook deliveries arrive twice, please look into it", ("retry-backoff",)),
    Case("replace console.log by something better in server.ts", ("no-console",)),
    Case("$ npm install lodash", ("pnpm",)),
    Case("$ npm test", ("pnpm", "vitest-run")),
    Case("$ git commit -m 'fix login'", ("imperative", "no-coauthor", "no-emoji")),
    Case("$ git push origin main", ("no-main-push",)),
    Case("$ pip install requests", ("uv",)),
    Case("$ docker-compose up -d", ("docker-compose",)),
    Case("$ sudo systemctl restart nginx", ("no-sudo",)),
    Case("$ terraform apply -auto-approve", ("terraform-plan",)),
    Case("> src/utils/index.ts :: export * from './date'", ("no-barrel", "no-any")),
    Case("> src/date.ts :: import moment from 'moment'\nexport const now = () => moment()", ("dayjs", "no-any")),
    Case("> migrations/0042_email.py :: def upgrade(): ...", ("reversible", "alembic")),
    Case("> src/server.ts :: console.log('started')", ("no-console", "no-any")),
    # nothing fits
    Case("what does this function do?"),
    Case("thanks, that works"),
    Case("can you make the sidebar a bit wider"),
    Case("why is the build slow"),
    Case("rename getUser to fetchUser everywhere"),
    Case("the button does nothing when I click it"),
    Case("explain how the scheduler picks the next job"),
    Case("I think there is a memory leak in the image cache"),
    Case("add a space between the icon and the label"),
    Case("is there any way to speed this up?"),
    Case("continue"),
    Case("write a parser for the config file"),
    Case("$ ls -la src"),
    Case("$ cat package.json | head -50"),
    Case("$ cargo build --release"),
    Case("$ git status"),
    Case("$ git diff HEAD~1"),
    Case("$ python scripts/report.py --month 5"),
    Case("> src/scheduler.rs :: fn next_job() -> Option<Job> { None }"),
    Case("> README.txt :: How to build"),
)

MORE: tuple[Case, ...] = (
    Case("add axios to the project with npm", ("pnpm", "no-new-deps")),
    Case("please commit and push", ("imperative", "no-coauthor", "no-main-push", "no-emoji")),
    Case("we need a new dependency for date parsing", ("no-new-deps",)),
    Case("the timestamps in the report are two hours off", ("utc",)),
    Case("convert all timestamps to dates in the export", ("utc",)),
    Case("search the code for uses of legacyAuth", ("rg",)),
    Case("format the Python files with black", ("ruff-format",)),
    Case("design the response of the new orders API", ("snake-api",)),
    Case("update the changelog", ("changelog",)),
    Case("run the worker locally", ("redis-local",)),
    Case("add a tooltip text to the UI for the export button", ("german-ui",)),
    Case("put the images into acme-media", ("s3-bucket",)),
    Case("$ npm run build", ("pnpm",)),
    Case("$ pytest tests/unit", ("pytest-x",)),
    Case("$ black src tests", ("ruff-format",)),
    Case("$ grep -r legacyAuth src", ("rg",)),
    Case("$ kubectl get pods -n prod", ("kubectl-context",)),
    Case("$ pip3 install -U pip", ("uv",)),
    Case("$ gh pr create --fill", ("small-prs",)),
    Case("$ alembic upgrade head", ("alembic",)),
    Case("> internal/server/main.go :: func main() {}", ("tabs",)),
    Case("> api/orders.proto :: message Order {}", ("proto-gen",)),
    Case("> src/pay.ts :: const total: any = 1.5", ("no-any",)),
    # nothing fits
    Case("good, now do the same for the other module"),
    Case("no, I meant the second one"),
    Case("there is a typo in the error message"),
    Case("how many users signed up last week?"),
    Case("refactor the class so that it is easier to read"),
    Case("use the existing helper instead of writing a new one"),
    Case("show me the output of the last run"),
    Case("make the header sticky"),
    Case("do not touch the generated files"),
    Case("the test is flaky, find out why"),
    Case("what is the difference between these two branches of the if statement?"),
    Case("write a function that merges two sorted lists"),
    Case("$ ls"),
    Case("$ cd /work/app && pwd"),
    Case("$ node scripts/build.js --watch"),
    Case("$ make build"),
    Case("$ curl -s http://localhost:8080/health"),
    Case("$ sed -n 1,40p src/main.c"),
    Case("> docs/setup.txt :: Install it and run it."),
    Case("> src/list.c :: int merge(int *a, int *b) { return 0; }"),
)

LATER_RULES: dict[str, Taught] = {
    "yarn-lock": Taught("Never delete yarn.lock to fix an install problem", "", (), ("yarn.lock",)),
    "bun": Taught("This repo uses bun for scripts, not node", "running scripts", ("bun",), ("node",)),
    "zod": Taught("Validate request bodies with zod", "adding an endpoint", ("zod",), ()),
    "no-force": Taught("Do not force-push shared branches", "", (), ("git push --force",)),
    "ticket": Taught("Start branch names with the Jira ticket, like PAY-123-short-title", "creating a branch"),
    "jest-env": Taught(
        "Put @jest-environment jsdom at the top of component tests",
        "writing component tests",
        ("@jest-environment jsdom",),
        (),
    ),
    "tailwind": Taught("Use Tailwind classes instead of custom CSS", "styling the frontend", ("tailwind",), ()),
    "thiserror": Taught("Define errors with thiserror, not anyhow, in library crates", "", ("thiserror",), ("anyhow",)),
    "unwrap": Taught("No unwrap() outside tests", "writing Rust", (), ("unwrap()",)),
    "prod-db": Taught(
        "Never run queries against the production database; use the replica",
        "querying production data",
        ("replica",),
        (),
    ),
    "cache-ttl": Taught("The session cache has a TTL of 30 minutes, do not lower it", "changing the session cache"),
    "poetry": Taught("Add dependencies with poetry add", "", ("poetry add",), ("pip install",)),
    "black88": Taught("Keep Python lines under 88 characters", "writing Python"),
    "screens": Taught("Attach a screenshot when a change touches the UI", "opening a pull request that touches the UI"),
    "english": Taught("Write code comments in English"),
    "helm": Taught(
        "Deploy with helm upgrade --install, never kubectl apply",
        "deploying",
        ("helm upgrade --install",),
        ("kubectl apply",),
    ),
    "mapper": Taught("DTOs are mapped in the mapper package, not in controllers", "adding a controller"),
    "lombok": Taught("Lombok is forbidden", "", (), ("lombok",)),
    "sentry": Taught(
        "Report unexpected exceptions to Sentry with captureException", "handling exceptions", ("captureException",), ()
    ),
    "gif": Taught(
        "Compress images in assets with oxipng before adding them", "adding images to assets", ("oxipng",), ()
    ),
}

LATER: tuple[Case, ...] = (
    Case("the install is broken, just delete yarn.lock and try again", ("yarn-lock",)),
    Case("add an endpoint for cancelling orders", ("zod",)),
    Case("create a branch for PAY-77", ("ticket",)),
    Case("write component tests for the date picker", ("jest-env",)),
    Case("deploy this to staging", ("helm",)),
    Case("how long do entries live in the session cache?", ("cache-ttl",)),
    Case("count the failed payments in the production data", ("prod-db",)),
    Case("let's use lombok to get rid of the getters", ("lombok",)),
    Case("add a controller for invoices", ("mapper",)),
    Case("put the three product images into the assets folder", ("gif",)),
    Case("force-push the branch", ("no-force",)),
    Case("style the pricing page of the frontend", ("tailwind",)),
    Case("$ node scripts/seed.js", ("bun",)),
    Case("$ rm yarn.lock && yarn install", ("yarn-lock",)),
    Case("$ git push --force origin feature/x", ("no-force",)),
    Case("$ git checkout -b pay-refunds", ()),
    Case("$ kubectl apply -f k8s/app.yaml", ("helm",)),
    Case("$ pip install httpx", ("poetry",)),
    Case("$ helm upgrade --install web ./chart", ("helm",)),
    Case("> crates/core/src/lib.rs :: let x = parse(s).unwrap();", ("unwrap",)),
    Case("> crates/core/src/error.rs :: use anyhow::Result;", ("thiserror", "unwrap")),
    Case("> app/models.py :: class User: ...", ("black88",)),
    Case("> src/main/java/App.java :: import lombok.Data;", ("lombok",)),
    Case("what did we decide yesterday about the naming?"),
    Case("undo that"),
    Case("why do you think so?"),
    Case("the list should be sorted by date, newest first"),
    Case("move the helper into its own file"),
    Case("there are too many arguments in this constructor"),
    Case("summarise what you changed"),
    Case("add a loading spinner while the results are fetched"),
    Case("is this thread-safe?"),
    Case("the numbers in the second column are wrong"),
    Case("please write the tests first"),
    Case("check whether the release notes mention it"),
    Case("$ git log --oneline -5"),
    Case("$ wc -l src/*.ts"),
    Case("$ go vet ./..."),
    Case("$ psql -c 'select 1'"),
    Case("$ mvn -q package"),
    Case("$ tail -f logs/app.log"),
    Case("> docs/notes.txt :: nothing special"),
    Case("> src/sort.kt :: fun sort(xs: List<Int>) = xs.sorted()"),
)


def said(text: str) -> relevance.Said:
    if text.startswith("$ "):
        return relevance.read_tool_call("Bash", {"command": text[2:]})
    if text.startswith("> "):
        path, written = text[2:].split(" :: ")
        return relevance.read_tool_call("Edit", {"file_path": f"/work/app/{path}", "new_string": written}, "/work/app")
    return relevance.read_prompt(text)


class Found(NamedTuple):
    precision: float
    recall: float
    loud: list[str]
    """Where nothing fits and something was said."""


def measured(home: Path, teach: Teach, rules: Mapping[str, Taught], cases: Sequence[Case]) -> Found:
    ids = {teach(**rule._asdict()): name for name, rule in rules.items()}
    right = claimed = wanted = 0
    loud = []
    with ReadOnlyRules(DataDir(str(home)), PROJECT) as glance:
        for case in cases:
            got = {ids[rule.id] for rule in relevance.find_relevant(glance, said(case.said), set(), 5)}
            right += len(got & set(case.fitting))
            claimed += len(got)
            wanted += len(case.fitting)
            loud += [case.said] if got and not case.fitting else []
    return Found(right / claimed, right / wanted, loud)


def test_what_set_the_floor(home: Path, teach: Teach) -> None:
    found = measured(home, teach, RULES, (*SETTING, *MORE))
    assert found.precision >= 0.95
    assert found.recall >= 0.95
    assert found.loud == []


def test_what_came_later(home: Path, teach: Teach) -> None:
    found = measured(home, teach, LATER_RULES, LATER)
    assert found.precision >= 0.9
    assert found.recall >= 0.85
    assert found.loud == []


@pytest.fixture
def glance(home: Path, teach: Teach) -> Callable[[], ReadOnlyRules]:
    return lambda: ReadOnlyRules(DataDir(str(home)), PROJECT)


def test_what_was_seen_is_not_found_again(glance: Callable[[], ReadOnlyRules], teach: Teach) -> None:
    known = teach("Use pnpm, not npm", prefer=["pnpm"], avoid=["npm"])
    with glance() as opened:
        assert [rule.id for rule in relevance.find_relevant(opened, said("$ npm i"), set(), 5)] == [known]
        assert relevance.find_relevant(opened, said("$ npm i"), {known}, 5) == []


def test_the_best_come_first_and_not_too_many(glance: Callable[[], ReadOnlyRules], teach: Teach) -> None:
    for number in range(8):
        teach(f"npm is not for module{number}", avoid=["npm"])
    best = teach("Do not run npm audit fix in the deploy job", avoid=["npm", "npm audit fix"])
    with glance() as opened:
        found = relevance.find_relevant(opened, said("$ npm audit fix"), set(), 5)
    assert len(found) == 5
    assert found[0].id == best


def test_folders_above_the_project_tell_nothing(glance: Callable[[], ReadOnlyRules], teach: Teach) -> None:
    teach("Every migration must have a downgrade", trigger="writing a migration")
    given = {"file_path": "/home/me/migrations/app/src/a.c", "new_string": "int a;"}
    with glance() as opened:
        assert (
            relevance.find_relevant(
                opened, relevance.read_tool_call("Edit", given, "/home/me/migrations/app"), set(), 5
            )
            == []
        )
        assert relevance.find_relevant(opened, relevance.read_tool_call("Edit", given, "/home/me"), set(), 5) != []


@pytest.mark.parametrize("text", ["", " ", "???", "\0", "a" * 100_000, "的" * 5000, '" OR "', "NEAR(a b)", "-- ; drop"])
def test_odd_texts_find_nothing_and_do_no_harm(glance: Callable[[], ReadOnlyRules], teach: Teach, text: str) -> None:
    teach("Use pnpm, not npm", avoid=["npm"])
    with glance() as opened:
        assert relevance.find_relevant(opened, said(text), set(), 5) == []


def test_a_name_is_found_in_a_text_of_another_script(glance: Callable[[], ReadOnlyRules], teach: Teach) -> None:
    known = teach("Use pnpm, not npm", avoid=["npm"])
    with glance() as opened:
        assert [rule.id for rule in relevance.find_relevant(opened, said("请用 npm 安装"), set(), 5)] == [known]


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (" npm test ", "npm", True),
        (" pnpm test ", "npm", False),
        (" npm-run ", "npm", False),
        (" ./npm ", "npm", False),
        (" use console.log, please ", "console.log", True),
        (" npm", "npm", True),
    ],
)
def test_a_name_is_mentioned_as_a_word(text: str, name: str, expected: bool) -> None:
    assert relevance.mentions_name(text, name) is expected


@pytest.mark.parametrize(
    ("command", "fits"), [("go test ./...", True), ("cd api && go test", True), ("go build", False), ("ls go", False)]
)
def test_a_mend_comes_up_where_its_command_is_run_again(
    glance: Callable[[], ReadOnlyRules], teach: Teach, command: str, fits: bool
) -> None:
    teach("Run `go test` in `api`", trigger="running go test", source="fix")
    with glance() as opened:
        found = relevance.find_relevant(opened, relevance.read_tool_call("Bash", {"command": command}), set(), 5)
        assert bool(found) is fits


def test_to_write_a_file_is_to_edit_it_though_its_path_does_not_say_so(
    glance: Callable[[], ReadOnlyRules], teach: Teach
) -> None:
    teach("Never edit files in dist, they are generated", trigger="editing files in dist")
    with glance() as opened:
        for path, fits in (("/w/app/dist/index.js", True), ("/w/app/src/index.js", False)):
            given = {"file_path": path, "content": "x"}
            assert (
                bool(relevance.find_relevant(opened, relevance.read_tool_call("Write", given, "/w/app"), set(), 5))
                is fits
            )


def test_the_same_work_in_another_form_of_the_word(glance: Callable[[], ReadOnlyRules], teach: Teach) -> None:
    teach("Don't run migrations yourself, only create the file", trigger="running migrations")
    with glance() as opened:
        assert relevance.find_relevant(
            opened, relevance.read_tool_call("Bash", {"command": "php artisan migrate"}), set(), 5
        )
