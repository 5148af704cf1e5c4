"""Every page: no error, no violation, nothing from elsewhere, accessible, narrow, and kept by reload and back."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import FOLDER, PAGES, SECONDS, Dashboard, Opener, Tab

AXE = FOLDER / "vendor" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def list_failures(tab: Tab) -> list[str]:
    """Return what axe finds against WCAG A and AA."""
    tab.page.evaluate(AXE.read_text("utf-8"))
    answer: dict[str, Any] = tab.page.evaluate(
        "(levels) => axe.run(document, {runOnly: {type: 'tag', values: levels}})", LEVELS
    )
    return [f"{one['id']}: {node['html'][:200]}" for one in answer["violations"] for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_page_is_accessible(shared: Dashboard, open_tab: Opener, theme: str) -> None:
    tab = open_tab(shared, color_scheme=theme)
    failures = {}
    for address in PAGES:
        tab.show(address)
        if failed := list_failures(tab):
            failures[address] = failed
    assert failures == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_of_an_empty_store_are_accessible_and_explain_what_to_do(
    empty: Dashboard, open_tab: Opener, theme: str
) -> None:
    tab = open_tab(empty, color_scheme=theme)
    failures = {}
    for address in PAGES:
        if "?session" in address:
            continue
        tab.show(address)
        if failed := list_failures(tab):
            failures[address] = failed
        if address in ("inbox", "rules", "strategies", "sessions", "profiles", "history", "spend", "effect"):
            assert tab.page.locator(".empty p").count() >= 2, address
    assert failures == {}


@pytest.mark.parametrize("opener", ["Merge…", "History", "Erase…", "Edit", "Add a rule", "Keys"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_dialogs_and_forms_are_accessible(shared: Dashboard, open_tab: Opener, opener: str, theme: str) -> None:
    tab = open_tab(shared, "admin", color_scheme=theme)
    tab.show("rules")
    tab.page.locator("button:visible", has_text=opener).last.click()
    tab.settle()
    assert list_failures(tab) == []


@pytest.mark.parametrize("scope", ["read", "approve", "admin"])
def test_each_page_shows_without_an_error_for_each_scope(shared: Dashboard, open_tab: Opener, scope: str) -> None:
    tab = open_tab(shared, scope)
    for address in PAGES:
        tab.show(address)
        assert tab.page.locator(".error").count() == 0, address
    assert {one.url.split("/")[2] for one in tab.requests} == {f"127.0.0.1:{shared.port}"}


@pytest.mark.parametrize("width", [320, 768])
def test_each_page_fits_a_narrow_screen_and_is_accessible(shared: Dashboard, open_tab: Opener, width: int) -> None:
    tab = open_tab(shared, "admin", viewport={"width": width, "height": 700})
    failures = {}
    for address in PAGES:
        tab.show(address)
        failed = list_failures(tab)
        if tab.page.evaluate("document.documentElement.scrollWidth") > width:
            failed.append("wider than the screen")
        if tab.page.locator(".scroll:has(table)").evaluate_all(
            "all => all.some((one) => one.scrollWidth > one.clientWidth)"
        ):
            failed.append("a table that must be scrolled")
        if failed:
            failures[address] = failed
    assert failures == {}


def test_text_of_twice_the_size_fits(shared: Dashboard, open_tab: Opener) -> None:
    tab = open_tab(shared, viewport={"width": 1280, "height": 800})
    wide = {}
    for address in PAGES:
        tab.show(address)
        tab.page.evaluate("document.documentElement.style.fontSize = '200%'")
        width = tab.page.evaluate("document.documentElement.scrollWidth")
        if width > 1280:
            wide[address] = width
    assert wide == {}


FILTERS = (
    ("rules", "Filter", "pnpm", "pnpm"),
    ("strategies", "Filter", "migrations", "migrations"),
    ("sessions", "Filter", "voucher", "voucher"),
    ("profiles", "Filter", "tabs", "tabs"),
)


@pytest.mark.parametrize(("address", "label", "words", "kept"), FILTERS)
def test_a_filter_is_kept_by_reload_and_by_going_back(
    shared: Dashboard, open_tab: Opener, address: str, label: str, words: str, kept: str
) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    tab.show(address)
    field = tab.page.get_by_label(label).first
    field.fill(words)
    expect(tab.page).to_have_url(f"{shared.url}/ui/#/{address}?q={kept}")
    tab.settle()
    rows = tab.page.locator("main .title").all_inner_texts()
    assert rows
    tab.page.reload()
    expect(field).to_have_value(words)
    tab.settle()
    assert tab.page.locator("main .title").all_inner_texts() == rows
    tab.show("health")
    tab.page.go_back()
    expect(field).to_have_value(words)
    tab.settle()
    assert tab.page.locator("main .title").all_inner_texts() == rows


@pytest.mark.parametrize(
    ("address", "label", "value"),
    [("rules", "Status", "candidate"), ("rules", "Order", "least_followed"), ("rules", "Trust", "untrusted"),
     ("rules", "Taught by", "correction"), ("strategies", "Type", "anti_pattern"), ("profiles", "Show", "facts"),
     ("spend", "Over", "7")],
)  # fmt: skip
def test_a_choice_is_kept_by_reload_and_by_going_back(
    shared: Dashboard, open_tab: Opener, address: str, label: str, value: str
) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    tab.show(address)
    choice = tab.page.locator("main label", has_text=label).locator("select").first
    before = choice.input_value()
    choice.select_option(value)
    tab.settle()
    assert value in tab.page.url
    tab.page.reload()
    expect(choice).to_have_value(value)
    tab.page.go_back()
    expect(choice).to_have_value(before)
    tab.page.go_forward()
    expect(choice).to_have_value(value)


def test_the_chosen_theme_stays(shared: Dashboard, open_tab: Opener) -> None:
    tab = open_tab(shared, color_scheme="light")
    tab.show("rules")
    tab.page.get_by_label("Theme").select_option("dark")
    assert tab.page.locator("html").get_attribute("data-theme") == "dark"
    tab.page.reload()
    tab.settle()
    assert tab.page.locator("html").get_attribute("data-theme") == "dark"


def test_the_title_and_the_focus_follow_the_page(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    tab.show("overview")
    for address, heading in PAGES.items():
        if "?" in address or address == "overview":
            continue
        tab.page.locator("nav[aria-label=Pages] a", has_text=heading).first.click()
        expect(tab.page).to_have_title(f"{heading} – alma")
        expect(tab.page.locator("main")).to_be_focused()


def test_the_recorder_notices_errors_violations_other_origins_and_bad_markup(
    shared: Dashboard, open_tab: Opener
) -> None:
    tab = open_tab(shared)
    tab.show("effect")
    tab.page.evaluate("setTimeout(() => { throw new Error('provoked') })")
    tab.page.evaluate("fetch('http://127.0.0.1:9/').catch(() => {})")
    tab.page.evaluate("try { document.body.innerHTML = '<b>x</b>' } catch {}")
    tab.page.evaluate("document.querySelector('main').append(document.createElement('button'))")
    parts = ("provoked", "connect-src", "require-trusted-types-for")
    deadline = time.monotonic() + SECONDS
    recorded = ""
    while not all(part in recorded for part in parts):
        assert time.monotonic() < deadline, recorded
        tab.page.wait_for_timeout(50)
        recorded = "\n".join([*tab.problems, *tab.page.evaluate("window.__violations")])
    assert [one.split(":")[0] for one in list_failures(tab)] == ["button-name"]
    tab.page.goto("about:blank")
    tab.problems.clear()
