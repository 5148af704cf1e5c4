"""Called from other machines, the server has nothing to do with the files of this one."""

from __future__ import annotations

from typing import Any

import pytest

from alma.errors import ValidationError
from alma.mcp.tools import select_tools
from alma.projects import limit_call

REMOTE = select_tools("all", roots=None)


def test_tools_that_work_on_files_are_not_offered() -> None:
    gone = select_tools("all").keys() - REMOTE.keys()
    assert gone == {"alma_ingest", "alma_export_rules", "alma_import_rules"}


def check(name: str, **arguments: Any) -> dict[str, Any]:
    operation = REMOTE[name].operation
    return limit_call(operation, operation.check(arguments), None, False)


def test_a_path_is_refused_and_a_default_one_is_none() -> None:
    with pytest.raises(ValidationError, match="path on the server"):
        check("alma_start_session", agent="dev", workspace="/etc")
    assert check("alma_start_session", agent="dev")["workspace"] is None


def test_a_uri_is_no_path() -> None:
    assert check("alma_link_artifact", run_id="r", location="https://example.org/report.txt")["location"]
    with pytest.raises(ValidationError, match="must be a URI"):
        check("alma_link_artifact", run_id="r", location="/etc/passwd")
