"""The keyboard alone reaches each action, and the shortcuts do what the help says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from .conftest import SECONDS, Dashboard, Opener, Tab, find_memory

pytestmark = [pytest.mark.browser, pytest.mark.system]

RETRY = "Retry a 429 after the Retry-After header"
MOST_TABS = 400
FOCUS = """() => {
  const one = document.activeElement;
  const name = one.getAttribute("aria-label") ?? one.labels?.[0]?.innerText ?? one.innerText ?? "";
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return {name: name.trim(), isSeen: box.width > 0 && (style.outlineStyle !== "none" || style.boxShadow !== "none"),
          outline: style.outlineWidth, tag: one.tagName, inMain: Boolean(one.closest("main"))};
}"""

FOCUS_START = """() => {
  const start = document.createElement("span");
  start.tabIndex = -1;
  document.body.prepend(start);
  start.focus();
}"""


def walk(tab: Tab) -> list[dict[str, Any]]:
    """Press Tab from the start of the page to its end; return what had the focus."""
    tab.page.evaluate(FOCUS_START)
    visited: list[dict[str, Any]] = []
    for _ in range(MOST_TABS):
        tab.page.keyboard.press("Tab")
        focus: dict[str, Any] = tab.page.evaluate(FOCUS)
        if focus["tag"] == "BODY":
            break
        visited.append(focus)
    return visited


REACHED = {
    "rules": ["Add a rule", "Filter", "Status", "Taught by", "Trust", "Order", "Select this page", f"Approve: {RETRY}",
              f"Reject: {RETRY}", "Edit: Keep prices", "Merge…: ", "History: ", "Why?", "Erase…: "],
    "inbox": ["Keep 1", "Keep 2", "Both hold: split by place…", "Merge…", f"Approve: {RETRY}",
              f"Edit: {RETRY}", f"Reject: {RETRY}", "Everywhere: ", "Only here: "],
    "sessions": ["Filter", "Fix the total of the cart"],
    "sessions?session=session-0": ["Erase this session…", "← All sessions"],
    "strategies": ["Filter", "Type", "How likely is a strategy to work?", "Edit: "],
    "profiles": ["Add a preference", "Edit: ", "Archive: ", "History: ", "Erase…: "],
    "why": ["Task", "Agent", "As it was on", "Compare with", "Ask"],
    "history": ["From", "Until", "Revert: "],
    "overview": ["Capturing now", "Waiting for you", "Rules in use"],
    "spend": ["Over"],
    "settings": [],
}  # fmt: skip


def test_tab_reaches_each_action_with_a_visible_focus(shared: Dashboard, open_tab: Opener) -> None:
    tab = open_tab(shared, "admin")
    failures = []
    for address, wanted in REACHED.items():
        tab.show(address)
        visited = walk(tab)
        names = [focus["name"] for focus in visited]
        for start in [*wanted, "Skip to the content", "Overview", "Theme", "Keys", "Sign out"]:
            if not any(name.startswith(start) for name in names):
                failures.append(f"{address}: {start!r} is not among {names}")
        failures += [f"{address}: {focus['name']!r} is not seen" for focus in visited if not focus["isSeen"]]
    assert failures == []


def test_the_first_tab_skips_to_the_content(shared: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    tab = open_tab(shared)
    tab.show("rules")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("main")).to_be_focused()
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate(FOCUS)["inMain"]


def test_a_rule_is_found_approved_and_undone_with_keys(tab: Tab, service: Dashboard) -> None:
    from playwright.sync_api import expect

    tab.show("overview")
    keys = tab.page.keyboard
    keys.press("g")
    keys.press("r")
    expect(tab.page.locator("h1")).to_have_text("Rules")
    tab.settle()
    keys.press("/")
    filter_field = tab.page.locator("[data-filter]")
    expect(filter_field).to_be_focused()
    keys.type("429")
    tab.settle()
    expect(tab.page.locator(".rows .title")).to_have_count(1)
    assert find_memory(service, RETRY)["status"] == "candidate", "no key acts while a field has the focus"
    filter_field.blur()
    keys.press("j")
    keys.press("a")
    expect(tab.page.locator(".notes")).to_contain_text("Approved")
    assert find_memory(service, RETRY)["status"] == "active"
    keys.press("u")
    expect(tab.page.locator(".notes")).to_contain_text("Undone")
    assert find_memory(service, RETRY)["status"] == "candidate"
    keys.press("x")
    expect(tab.page.locator(".notes")).to_contain_text("Rejected")
    keys.press("e")
    expect(tab.page.get_by_role("textbox", name="Rule")).to_be_focused()
    keys.press("Escape")
    expect(tab.page.locator(".detail [data-do=edit]")).to_be_focused()
    keys.press("m")
    expect(tab.page.locator("dialog")).to_be_visible()
    keys.press("Escape")
    expect(tab.page.locator("dialog")).to_have_count(0)


def test_a_late_answer_leaves_the_focus_where_it_is(tab: Tab) -> None:
    from playwright.sync_api import expect

    tab.show("rules?q=429")
    tab.page.keyboard.press("j")
    tab.settle()
    held: list[Any] = []
    inspected: list[str] = []

    def hold_second(route: Any) -> None:
        inspected.append(route.request.url)
        if len(inspected) == 2:
            held.append(route)
        else:
            route.continue_()

    tab.page.route("**/v1/inspect", hold_second)
    tab.page.keyboard.press("x")
    expect(tab.page.locator(".notes")).to_contain_text("Rejected")
    edit = tab.page.locator(".detail [data-do=edit]")
    edit.focus()
    deadline = time.monotonic() + SECONDS
    while not held and time.monotonic() < deadline:
        tab.page.wait_for_timeout(50)
    expect(tab.page.locator(".detail [data-do=reject]")).to_have_count(1)
    held[0].continue_()
    expect(tab.page.locator(".detail [data-do=reject]")).to_have_count(0)
    expect(edit).to_be_focused()


def test_a_conflict_is_decided_with_keys_and_the_next_one_gets_the_focus(tab: Tab, service: Dashboard) -> None:
    from playwright.sync_api import expect

    tab.show("inbox")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("1")
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(0)
    assert service.call("conflicts") == []
    expect(tab.page.locator("[data-item]").first.locator(".title")).to_be_focused()


def test_keys_can_be_switched_off(tab: Tab, service: Dashboard) -> None:
    from playwright.sync_api import expect

    tab.show("rules?status=candidate")
    tab.page.keyboard.press("?")
    tab.page.get_by_role("checkbox", name="Use keys").uncheck()
    tab.page.keyboard.press("Escape")
    tab.page.keyboard.press("j")
    tab.page.keyboard.press("a")
    tab.page.wait_for_timeout(500)
    assert service.call("browse", types=["rule"], statuses=["candidate"])["count"] == 4
    expect(tab.page.locator(".notes .note")).to_have_count(0)


def test_a_dialog_keeps_the_focus_and_gives_it_back(tab: Tab) -> None:
    from playwright.sync_api import expect

    tab.show("rules")
    opener = tab.page.locator("button", has_text="Add a rule")
    opener.focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("dialog")).to_be_visible()
    for _ in range(12):
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate(
            "Boolean(document.activeElement.closest('dialog')) || document.activeElement === document.body"
        )
    tab.page.keyboard.press("Escape")
    expect(opener).to_be_focused()
