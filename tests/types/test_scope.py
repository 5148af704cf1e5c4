from __future__ import annotations

from alma.types import MemoryScope, Scopes


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
    assert scopes.readable("junior") == ("junior", "senior")
    assert scopes.readable("qa") == ("qa", "senior")
    assert scopes.readable("miser") == ("miser",)
    assert scopes.unanswered() == [("junior", "miser")]
    assert scopes.known() == ("senior", "junior", "miser", "qa")


def test_names_are_known_in_any_case_once_declared() -> None:
    scopes = Scopes({"Helena": MemoryScope("Helena")})
    assert (scopes.canonical("helena"), scopes.canonical("victor")) == ("Helena", None)
    assert Scopes({}).canonical("anyone") == "anyone"
