"""Schemathesis reads the document and tries what it can think of: no answer is a 5xx, and none is otherwise than told.

What fits the schema may be refused all the same: that a text has something to read in it, or that a name is not yet
taken, is nothing a schema can say.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from hypothesis import HealthCheck, settings

from alma import ALMA
from alma.http.app import App, GateRules, HttpService, list_offered
from alma.http.shell import DashboardSessions
from alma.http.tokens import Tokens
from alma.projects import LazyMemory, Projects

from .conftest import make_site

pytestmark = pytest.mark.system

# Of each operation. Without a number in these settings, schemathesis takes the one of the profile.
EXAMPLES = int(os.environ.get("ALMA_TEST_EXAMPLES", "3"))
SETTINGS = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
HOST = "testserver"


class Later:
    """The tests are made from the document before there is a service; and each test would end it."""

    app: App

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})


def pick_operations() -> list[str]:
    """Return operations in which every kind of parameter occurs: the boundary cases of others are the same."""
    names, seen = [], set()
    for one in sorted(list_offered().values(), key=lambda one: len(one.parameters)):
        kinds = {(str(p.type), p.about.least is None, bool(p.about.choices), p.needed) for p in one.parameters}
        if not kinds <= seen:
            names.append(one.name)
            seen |= kinds
    return names


later = Later()


def load(phase: str, other: str) -> Any:
    import schemathesis

    projects = Projects(LazyMemory(ALMA.quickstart))
    sessions = DashboardSessions(Tokens(Path("none.json")))
    document = HttpService(projects, GateRules(hosts=frozenset()), sessions).app.openapi()
    schema = schemathesis.openapi.from_dict(document)
    schema.app = later
    schema.config.generation.update(max_examples=EXAMPLES, deterministic=True)
    getattr(schema.config.phases, other).enabled = False
    assert getattr(schema.config.phases, phase).enabled
    return schema


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    site = make_site(Path(tmp_path_factory.mktemp("service")), GateRules(hosts=frozenset({HOST}), rate=0))
    later.app = site.app
    yield {"Authorization": f"Bearer {site.secrets['admin']}"}
    site.alma.close()


def try_operations(schema: Any, headers: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the operations that were tried, and what was wrong with the answers of some.

    The examples are made here, because each process that collects tests would make those of parametrized ones, and
    import schemathesis.
    """
    from schemathesis.checks import CHECKS, load_all_checks
    from schemathesis.core.failures import FailureGroup
    from schemathesis.pytest.lazy import get_all_tests

    load_all_checks()
    passed_over = CHECKS.get_by_names(["positive_data_acceptance"])

    def try_one(case: Any) -> None:
        case.call_and_validate(headers=headers, excluded_checks=passed_over)

    tried: list[str] = []
    problems: dict[str, str] = {}
    for result in get_all_tests(schema=schema, test_func=try_one, settings=SETTINGS, given_kwargs=None):
        operation, test = result.ok()
        try:
            test()
        except SkipTest:
            continue
        except (AssertionError, FailureGroup) as error:
            problems[operation.label] = "".join(traceback.format_exception(error))
        tried.append(operation.label)
    return tried, problems


def test_every_answer_is_as_the_document_says(headers: dict[str, str]) -> None:
    tried, problems = try_operations(load("fuzzing", "coverage"), headers)
    assert len(tried) >= len(list_offered())
    assert problems == {}


def test_values_at_the_boundaries_of_the_document(headers: dict[str, str]) -> None:
    names = [*pick_operations(), "metrics", "operations"]
    tried, problems = try_operations(load("coverage", "fuzzing").include(operation_id=names), headers)
    assert len(tried) == len(names)
    assert problems == {}
