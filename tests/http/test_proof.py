"""The proof that a server knows a token: for whoever knows it too, on this connection, and for nobody else."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from alma.http import proof, tokens

from .conftest import HOST, Site

ENDS = proof.ConnectionEnds(f"{HOST} 80", "testclient 50000")


def ask_proof(site: Site, secret: str, ends: proof.ConnectionEnds = ENDS, **headers: str) -> httpx.Response:
    nonce = proof.make_nonce()
    body = {"nonce": nonce, "signature": proof.sign_request(tokens.digest_secret(secret), nonce, ends)}
    answer = send(site, body, **headers)
    if answer.status_code == 200:
        given = (tokens.digest_secret(secret), nonce, ends, os.getpid(), answer.json()["signature"])
        assert proof.is_proven(*given)
    return answer


def send(site: Site, body: Any, **headers: str) -> httpx.Response:
    client = TestClient(site.app, base_url=f"http://{HOST}", headers={"host": HOST, **headers})
    return client.post(proof.PATH, json=body)


@pytest.mark.parametrize("scope", ["read", "admin"])
def test_a_server_proves_that_it_knows_a_token(site: Site, scope: str) -> None:
    site.token("guest", scope)
    answer = ask_proof(site, site.secrets["guest"])
    assert (answer.status_code, answer.json()["pid"]) == (200, os.getpid())
    assert site.secrets["guest"] not in answer.text
    assert answer.headers["cache-control"] == "no-store"


def test_a_secret_that_the_server_does_not_know_is_told_nothing(site: Site) -> None:
    answer = ask_proof(site, "alma_wrong")
    assert answer.status_code == 401
    assert "signature" not in answer.json()
    site.token("guest")
    tokens.revoke(site.tokens, "guest")
    assert ask_proof(site, site.secrets["guest"]).status_code == 401


@pytest.mark.parametrize(
    "ends",
    [
        proof.ConnectionEnds(f"{HOST} 81", "testclient 50000"),
        proof.ConnectionEnds("other.test 80", "testclient 50000"),
        proof.ConnectionEnds(f"{HOST} 80", "testclient 50001"),
        proof.ConnectionEnds("testclient 50000", f"{HOST} 80"),
        proof.ConnectionEnds("", ""),
    ],
)
def test_what_was_signed_for_another_connection_is_refused(site: Site, ends: proof.ConnectionEnds) -> None:
    assert ask_proof(site, site.secrets["admin"], ends).status_code == 401


def test_an_answer_is_no_request_and_no_nonce_is_any_text(site: Site) -> None:
    digest, nonce = tokens.digest_secret(site.secrets["admin"]), proof.make_nonce()
    bodies: list[Any] = [
        {},
        {"nonce": nonce},
        {"nonce": nonce, "signature": None},
        {"nonce": nonce, "signature": proof.sign_answer(digest, nonce, ENDS, os.getpid())},
        {"nonce": "", "signature": proof.sign_request(digest, "", ENDS)},
        {"nonce": f"{nonce}\nx", "signature": proof.sign_request(digest, f"{nonce}\nx", ENDS)},
        {"nonce": [nonce], "signature": "é" * 64},
    ]
    assert [send(site, body).status_code for body in bodies] == [401] * len(bodies)


def test_wrong_requests_do_not_keep_a_right_one_out(site: Site) -> None:
    assert {send(site, {}).status_code for _ in range(15)} == {401, 429}
    assert ask_proof(site, site.secrets["admin"]).status_code == 200


def test_pages_of_others_and_other_hosts_are_refused(site: Site) -> None:
    secret = site.secrets["admin"]
    assert ask_proof(site, secret, **{"sec-fetch-site": "cross-site"}).status_code == 403
    assert ask_proof(site, secret, origin="https://evil.example").status_code == 403
    assert ask_proof(site, secret, host="evil.example").status_code == 421


def test_a_damaged_token_file_tells_nothing(site: Site) -> None:
    site.tokens.write_text("nonsense")
    answer = ask_proof(site, site.secrets["admin"])
    assert answer.status_code == 503
    assert str(site.tokens.parent) not in answer.text
