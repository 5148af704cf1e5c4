"""Every page: no error, no violation, nothing from elsewhere, accessible, narrow, and kept by reload and back."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import FOLDER, PAGES, SECONDS, Dashboard, Opener, Tab

pytestmark = [pytest.mark.browser, pytest.mark.system]

AXE = FOLDER / "vendor" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


RUN_AXE = """async (choice) => {
  const answer = await axe.run(document, {runOnly: choice, resultTypes: ["violations"]});
  return answer.violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 200)}`));
}"""
EVERY_RULE = {"type": "tag", "values": LEVELS}
RULES_OF_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
"""The rules whose result depends on the theme, which changes colours and nothing else."""


def list_failures(tab: Tab, choice: dict[str, Any] = EVERY_RULE) -> list[str]:
    """Return what axe finds against WCAG A and AA."""
    if not tab.page.evaluate("Boolean(window.axe)"):
        tab.page.evaluate(AXE.read_text("utf-8"))
    failures: list[str] = tab.page.evaluate(RUN_AXE, choice)
    return failures


def list_failures_in_both_themes(tab: Tab) -> list[str]:
    """Return what axe finds in the light theme, and in the dark one against the rules that concern colours."""
    failures = list_failures(tab)
    tab.page.emulate_media(color_scheme="dark")
    failures += [f"dark: {failure}" for failure in list_failures(tab, RULES_OF_COLOURS)]
    tab.page.emulate_media(color_scheme="light")
    return failures


def list_failures_of_width(tab: Tab, width: int) -> list[str]:
    """Return what axe finds on a narrow screen, and what does not fit it."""
    tab.page.set_viewport_size({"width": width, "height": 700})
    tab.settle()
    failures = list_failures(tab)
    if tab.page.evaluate("document.documentElement.scrollWidth") > width:
        failures.append("wider than the screen")
    tables = tab.page.locator(".scroll:has(table)")
    if tables.evaluate_all("all => all.some((one) => one.scrollWidth > one.clientWidth)"):
        failures.append("a table that must be scrolled")
    return [f"{width}: {failure}" for failure in failures]


def list_failures_with_large_text(tab: Tab) -> list[str]:
    """Return what does not fit the screen where text has twice the size."""
    tab.page.evaluate("document.documentElement.style.fontSize = '200%'")
    width = tab.page.evaluate("document.documentElement.scrollWidth")
    tab.page.evaluate("document.documentElement.style.fontSize = ''")
    return [f"200 %: {width} wide"] if width > 1280 else []


def test_each_page_is_accessible_in_both_themes_and_fits_a_narrow_screen(shared: Dashboard, open_tab: Opener) -> None:
    """And is shown without an error, with text of twice the size, too."""
    tab = open_tab(shared, "admin", color_scheme="light")
    failures = []
    for address in PAGES:
        tab.page.set_viewport_size({"width": 1280, "height": 800})
        tab.show(address)
        assert tab.page.locator(".error").count() == 0, address
        found = list_failures_with_large_text(tab)
        found += list_failures_in_both_themes(tab)
        for width in (768, 320):
            found += list_failures_of_width(tab, width)
        failures += [f"{address}: {failure}" for failure in found]
    assert failures == []
    assert {one.url.split("/")[2] for one in tab.requests} == {f"127.0.0.1:{shared.port}"}


def test_pages_of_an_empty_store_are_accessible_and_explain_what_to_do(empty: Dashboard, open_tab: Opener) -> None:
    tab = open_tab(empty, color_scheme="light")
    failures = []
    for address in PAGES:
        if "?session" in address:
            continue
        tab.show(address)
        failures += [f"{address}: {failure}" for failure in list_failures_in_both_themes(tab)]
        if address in ("inbox", "rules", "strategies", "sessions", "profiles", "history", "spend", "effect"):
            assert tab.page.locator(".empty p").count() >= 2, address
    assert failures == []


def test_dialogs_and_forms_are_accessible(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared, "admin", color_scheme="light")
    tab.show("rules")
    failures = []
    for opener in ("Merge…", "History", "Erase…", "Edit", "Add a rule", "Keys"):
        tab.page.locator("button:visible", has_text=opener).last.click()
        opened = tab.page.locator("dialog, .detail form")
        expect(opened).to_have_count(1)
        tab.settle()
        failures += [f"{opener}: {failure}" for failure in list_failures_in_both_themes(tab)]
        tab.page.keyboard.press("Escape")
        expect(opened).to_have_count(0)
    assert failures == []


@pytest.mark.parametrize("scope", ["read", "approve"])
def test_each_page_shows_without_an_error_for_each_scope(shared: Dashboard, open_tab: Opener, scope: str) -> None:
    """Text of twice the size fits, too. The scope admin is that of the test of accessibility."""
    tab = open_tab(shared, scope)
    wide = {}
    for address in PAGES:
        tab.show(address)
        assert tab.page.locator(".error").count() == 0, address
        failures = list_failures_with_large_text(tab)
        if failures:
            wide[address] = failures
    assert wide == {}
    assert {one.url.split("/")[2] for one in tab.requests} == {f"127.0.0.1:{shared.port}"}


FILTERS = {"rules": "pnpm", "strategies": "migrations", "sessions": "voucher", "profiles": "tabs"}


def test_a_filter_is_kept_by_reload_and_by_going_back(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    titles = tab.page.locator("main .title")
    for address, words in FILTERS.items():
        tab.show(address)
        field = tab.page.get_by_label("Filter").first
        field.fill(words)
        expect(tab.page).to_have_url(f"{shared.url}/ui/#/{address}?q={words}")
        tab.settle()
        rows = titles.all_inner_texts()
        assert rows, address
        tab.page.reload()
        expect(field).to_have_value(words)
        tab.settle()
        assert titles.all_inner_texts() == rows, address
        tab.show("health")
        tab.page.go_back()
        expect(field).to_have_value(words)
        tab.settle()
        assert titles.all_inner_texts() == rows, address


CHOICES = (
    ("rules", "Status", "candidate"),
    ("rules", "Order", "least_followed"),
    ("rules", "Trust", "untrusted"),
    ("rules", "Taught by", "correction"),
    ("strategies", "Type", "anti_pattern"),
    ("profiles", "Show", "facts"),
    ("spend", "Over", "7"),
)


def test_a_choice_is_kept_by_reload_and_by_going_back(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    for address, label, value in CHOICES:
        tab.show(address)
        choice = tab.page.locator("main label", has_text=label).locator("select").first
        before = choice.input_value()
        assert before != value, label
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
    with pytest.raises(Exception, match="ERR_NAME_NOT_RESOLVED"):
        tab.page.goto("http://other.example/")
    assert "request to another origin: http://other.example/" in tab.problems
    tab.page.close()
    tab.problems.clear()
