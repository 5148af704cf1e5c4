from __future__ import annotations

from alma.types import MemoryScope, Scopes, Team
from alma.types.query import PROJECT_WIDE


def test_what_an_agent_may_learn() -> None:
    open_minded, fenced = (
        MemoryScope("a", cannot_learn=("x",)),
        MemoryScope("b", can_learn=("x", "y"), cannot_learn=("y",)),
    )
    assert [open_minded.is_allowed(name) for name in ("x", "y")] == [False, True]
    assert [fenced.is_allowed(name) for name in ("x", "y", "z")] == [True, False, False]


def test_reading_needs_consent_and_wanting_without_it_is_listed() -> None:
    scopes = Scopes(
        {
            "senior": MemoryScope("senior", share_with=("junior", "qa")),
            "junior": MemoryScope("junior", inherit_from=("senior", "miser")),
            "miser": MemoryScope("miser"),
        }
    )
    assert scopes.readable("junior") == ("junior", "senior", PROJECT_WIDE)
    assert scopes.readable("qa") == ("qa", "senior", PROJECT_WIDE)
    assert scopes.readable("miser") == ("miser", PROJECT_WIDE)
    assert scopes.unanswered() == [("junior", "miser")]
    assert scopes.known() == ("senior", "junior", "miser", "qa")


def test_names_are_known_in_any_case_once_declared() -> None:
    scopes = Scopes({"Helena": MemoryScope("Helena")})
    assert (scopes.canonical("helena"), scopes.canonical("victor")) == ("Helena", None)
    assert Scopes({}).canonical("anyone") == "anyone"


def test_teams_add_spaces_colleagues_and_roles() -> None:
    backend = Team("backend", ("dev", "qa"), {"alice": "lead", "bob": ""})
    scopes = Scopes({}, teams=(backend, Team("ops", ("qa",), {"alice": "on call", "carol": ""})))
    assert scopes.readable("qa") == ("qa", "team:backend", "team:ops", PROJECT_WIDE)
    assert scopes.colleagues("bob") == {"", "alice", "bob"}
    assert scopes.colleagues("alice") == {"", "alice", "bob", "carol"}
    assert scopes.colleagues("stranger") == {"", "stranger"}
    assert scopes.colleagues(None) == {""}
    assert Scopes({}, teams=(Team("agents", ("dev",)),)).colleagues("bob") is None
    assert scopes.names("alice") == ("alice", "lead", "on call")
    assert scopes.canonical("anyone") == "anyone"
