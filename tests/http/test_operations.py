"""Every operation over HTTP, its answer checked against what the document says of it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.api.samples import World

from alma.http.app import list_offered
from alma.operations import operations

from .conftest import Site
from .samples import OVER_HTTP, order


def test_there_is_a_sample_for_each_operation() -> None:
    assert list_offered().keys() == OVER_HTTP.keys()


def test_every_operation_answers_as_the_document_says(site: Site, prepared: World) -> None:
    with site.client() as client:
        document = client.get("/openapi.json").json()
        assert {f"/v1/{name}" for name in list_offered()} <= document["paths"].keys()
        for name in order():
            arguments = OVER_HTTP[name](prepared)
            described = document["paths"][f"/v1/{name}"]["post"]
            asked = described["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.validate(arguments, {**asked, "components": document["components"]})
            answer = client.post(f"/v1/{name}", json=arguments)
            assert answer.status_code == 200, (name, answer.text)
            schema = described["responses"]["200"]["content"]["application/json"]["schema"]
            jsonschema.validate(answer.json(), {**schema, "components": document["components"]})


def test_what_is_not_an_object_is_in_one(site: Site, prepared: World) -> None:
    assert [one["id"] for one in site.post("list", {"memory_type": "heuristic"}).json()["result"]] == [
        prepared.heuristic
    ]


def test_an_answer_names_the_change_that_was_made(site: Site) -> None:
    """So that a caller can revert exactly that one, whatever others changed since."""
    added = site.post("add_rule", {"agent": "dev", "rule": "Sign every release", "source": "user"}, name="admin")
    update = {"memory_id": added.json()["id"], "fields": {"why": "customers verify it"}, "source": "user"}
    updated, again = (site.post("update", {**update, "tags": [tag]}, name="admin") for tag in ("first", "second"))
    changes = [one.headers["alma-change"] for one in (added, updated, again)]
    assert len(set(changes)) == 3
    history = site.post("history", {"memory_id": added.json()["id"]}).json()["result"]
    assert [one["change"] for one in history] == changes
    assert "alma-change" not in site.post("stats").headers


def test_no_arguments_need_no_body(site: Site) -> None:
    answer = site.client().post("/v1/stats")
    assert (answer.status_code, answer.json()["project_id"]) == (200, "app")


def test_arguments_in_the_query_are_refused_and_not_ignored(site: Site) -> None:
    answer = site.client().post("/v1/list?limit=1")
    assert answer.status_code == 400
    assert "send the arguments of list in the body as JSON, not in the query" in answer.json()["detail"]


def test_the_operations_are_listed(site: Site) -> None:
    listed = {one["name"]: one for one in site.client("admin").get("/v1/operations").json()["operations"]}
    assert listed.keys() == list_offered().keys()
    assert listed["retrieve"] == {
        "name": "retrieve",
        "summary": operations()["retrieve"].summary,
        "group": "memories",
        "effect": "reads",
        "idempotent": True,
        "scope": "read",
    }
    assert listed["delete"]["scope"] == listed["erase_user"]["scope"] == "admin"


def test_health_and_readiness(site: Site) -> None:
    client = site.client()
    assert client.get("/health").json()["status"] == "ok"
    assert client.get("/ready").json() == {"ready": True}
    assert [client.head(path).status_code for path in ("/health", "/ready", "/metrics")] == [200, 200, 405]


def test_a_memory_that_is_not_well_is_not_ready(site: Site) -> None:
    site.alma.close()
    answer = site.client().get("/ready")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert site.client().get("/health").status_code == 200
    assert [site.client().head(path).status_code for path in ("/health", "/ready")] == [200, 503]


def test_figures_for_prometheus(site: Site, prepared: World) -> None:
    site.post("retrieve", {"task": "Deploy", "agent": "dev"})
    site.post("get", {"memory_id": "nobody"})
    answer = site.client().get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = answer.text.splitlines()
    assert 'alma_http_requests_total{operation="retrieve",status="200"} 1.0' in lines
    assert 'alma_http_requests_total{operation="get",status="404"} 1.0' in lines
    assert 'alma_http_request_seconds_count{operation="retrieve"} 1.0' in lines
    assert 'alma_http_request_seconds_bucket{le="+Inf",operation="retrieve"} 1.0' in lines
    assert "alma_http_requests_in_flight 1.0" in lines
    assert 'alma_memories{project="app",type="heuristic"} 1.0' in lines
    assert "nobody" not in answer.text


LOCAL = [
    ("start_session", {"agent": "dev", "workspace": "."}),
    ("start_session", {"agent": "dev", "workspace": "/etc"}),
    ("start_session", {"agent": "dev", "workspace": "a://../../etc"}),
    ("initialize", {"agent": "dev", "user_prompt": "Fix it", "workspace": "/etc"}),
    ("link_artifact", {"run_id": "r", "location": "/etc/passwd"}),
    ("link_artifact", {"run_id": "r", "location": " file:///etc/passwd"}),
    ("link_artifact", {"run_id": "r", "location": "FILE:/etc/passwd"}),
    ("link_artifact", {"run_id": "r", "location": "C:\\secrets.txt"}),
    ("link_artifact", {"run_id": "r", "location": "../tokens"}),
]


@pytest.mark.parametrize(("name", "arguments"), LOCAL)
def test_nobody_names_files_of_the_server(site: Site, name: str, arguments: dict[str, str]) -> None:
    answer = site.post(name, arguments)
    assert answer.status_code == 400
    assert "path on the server" in answer.json()["detail"]


def test_without_a_workspace_the_servers_folder_is_not_looked_at(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    answer = site.post("start_session", {"agent": "dev", "goal": "Look around"}).json()
    assert answer["codebase_state"] is None


def test_what_works_on_files_of_the_server_is_not_offered(site: Site) -> None:
    for name, operation in operations().items():
        named = [one for one in operation.parameters if one.about.local and one.needed and not one.about.uri]
        assert operation.on_files or not named, f"{name} cannot be called without a path"
    for name in ("ingest", "export_rules", "import_rules"):
        assert site.post(name, {"to": "agents-md"}).status_code == 404
        assert name not in list_offered()


def test_what_sounds_like_a_path_is_marked(site: Site) -> None:
    sounding = ("path", "folder", "workspace", "location", "directory", "root", "file")
    for operation in operations().values():
        for one in operation.parameters:
            if one.name.rpartition("_")[2] in sounding:
                assert one.about.local, f"{operation.name}.{one.name}"


def test_the_answer_is_compact_json_in_utf8(site: Site) -> None:
    answer = site.post("add_knowledge", {"agent": "dev", "domain": "food", "fact": "Crème brûlée 🍮"})
    assert "Crème brûlée 🍮".encode() in answer.content
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.content)["fact"] == "Crème brûlée 🍮"


def test_an_unknown_operation_gets_a_hint(site: Site) -> None:
    client = site.client("admin")
    details = {name: client.post(f"/v1/{name}").json()["detail"] for name in ("retreive", "add_blocker")}
    assert "Did you mean 'retrieve'?" in details["retreive"]
    assert "It was replaced by 'update_progress'." in details["add_blocker"]
    assert client.post("/v1/backup").json()["detail"].startswith("unknown operation 'backup'. GET /v1/operations")
    instead = {"ingest": "alma ingest", "export_rules": "alma rules export", "import_rules": "alma rules import"}
    assert instead.keys() == operations().keys() - list_offered().keys()
    for name, command in instead.items():
        detail = client.post(f"/v1/{name}").json()["detail"]
        assert "not offered over HTTP" in detail
        assert f"run `{command}`" in detail
    answer = client.get("/v1/retrieve")
    assert (answer.status_code, "with POST" in answer.json()["detail"]) == (405, True)
