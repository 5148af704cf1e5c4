"""What people do in the dashboard, and what they see when somebody else did something meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.test_consolidate import Model

from alma import ALMA
from alma.embedders.hash import HashEmbedder
from alma.engine.observations import draft_observation
from alma.engine.transaction import write
from alma.models.budget import reserve, settle
from alma.types.asking import BudgetLimits, ModelSettings

from .conftest import AGENT, PROJECT, Dashboard, Opener, Tab, find_memory, start_service

pytestmark = [pytest.mark.browser, pytest.mark.system]

RETRY = "Retry a 429 after the Retry-After header"


@pytest.fixture
def expect() -> Callable[..., Any]:
    from playwright.sync_api import expect

    return expect


def get_status(service: Dashboard, text: str) -> str:
    return str(find_memory(service, text)["status"])


def add_rules(service: Dashboard, count: int, words: str, source: str = "agent") -> None:
    rules = [{"type": "rule", "agent": AGENT, "rule": f"{words} {number}", "source": source} for number in range(count)]
    service.alma.add_many(rules)


def press(tab: Tab, label: str, place: str = "main") -> None:
    tab.page.locator(f"{place} button:visible", has_text=label).first.click()


# -- one memory


def test_a_waiting_rule_is_decided_and_the_decision_undone(tab: Tab, service: Dashboard, expect: Any) -> None:
    for place in ("rules?status=candidate", "inbox"):
        for action, status in {"Approve": "active", "Reject": "archived"}.items():
            tab.show(place)
            tab.page.get_by_role("button", name=f"{action}: {RETRY}").first.click()
            expect(tab.page.get_by_role("status").filter(has_text="Undo")).to_be_visible()
            assert get_status(service, RETRY) == status, (place, action)
            press(tab, "Undo", ".notes")
            expect(tab.page.locator(".notes")).to_contain_text("Undone.")
            assert get_status(service, RETRY) == "candidate", (place, action)
            expect(tab.page.get_by_role("button", name=f"{action}: {RETRY}").first).to_be_visible()
            tab.page.reload()


def test_an_address_that_changes_as_the_page_appears_is_followed(tab: Tab, expect: Any) -> None:
    tab.page.add_init_script("""
        new MutationObserver((_, observer) => {
          if (!document.querySelector(".side")) return;
          observer.disconnect();
          location.hash = "#/inbox";
        }).observe(document, { childList: true, subtree: true });
    """)
    tab.page.goto(f"{tab.service.url}/ui/#/rules")
    expect(tab.page.locator("main h1")).to_have_text("Inbox")
    tab.settle()


def test_a_decided_row_stays_until_the_next_navigation(tab: Tab, expect: Any) -> None:
    tab.show("rules?status=candidate")
    titles = tab.page.locator(".rows .title").all_inner_texts()
    tab.page.get_by_role("button", name=f"Approve: {RETRY}").first.click()
    row = tab.page.locator("[data-row]", has_text=RETRY)
    expect(row.locator(".badge", has_text="active")).to_be_visible()
    tab.page.wait_for_timeout(1500)
    assert tab.page.locator(".rows .title").all_inner_texts() == titles
    tab.page.reload()
    tab.settle()
    expect(row).to_have_count(0)


def test_an_edit_can_be_left_stored_and_undone(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    tab.show(f"rules?id={rule['id']}")
    press(tab, "Edit", ".detail")
    tab.page.get_by_role("textbox", name="Rule").fill("Not stored")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to npm test")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to npm test"
    press(tab, "Edit", ".detail")
    tab.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    press(tab, "Save", ".detail")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to vitest")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to vitest"
    assert service.call("history", memory_id=rule["id"])[-1]["by"].startswith("dashboard")
    expect(tab.page.locator(".detail [data-do=edit]")).to_be_focused()
    press(tab, "Undo", ".notes")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to npm test")


def test_undo_takes_back_the_own_change_and_none_that_came_after_it(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    tab.show(f"rules?id={rule['id']}")
    press(tab, "Edit", ".detail")
    tab.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    press(tab, "Save", ".detail")
    expect(tab.page.locator(".notes")).to_contain_text("Saved")
    service.call("update", memory_id=rule["id"], fields={"rule": "Pass --run to jest"}, source="user")
    tab.expected.append("400")
    press(tab, "Undo", ".notes")
    alert = tab.page.locator(".notes [role=alert]")
    expect(alert).to_contain_text("This memory was changed again on")
    assert "_" not in alert.inner_text(), "ids are for the command line"
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to jest"


def test_undo_of_an_added_rule_leaves_what_somebody_made_of_it(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("rules")
    press(tab, "Add a rule")
    tab.page.get_by_label("Rule: what to do").fill("Sign every release")
    press(tab, "Add the rule", "dialog")
    expect(tab.page.locator(".notes")).to_contain_text("Added")
    rule = find_memory(service, "Sign every release")
    service.call("update", memory_id=rule["id"], fields={"why": "customers verify it"}, source="user")
    press(tab, "Undo", ".notes")
    expect(tab.page.locator(".notes")).to_contain_text("Undone.")
    after = service.call("get", memory_id=rule["id"])
    assert (after["status"], after["why"]) == ("retired", "customers verify it"), "the rule is undone, not the edit"


def test_two_editors_see_both_texts(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    first, second = open_tab(service), open_tab(service)
    for tab in (first, second):
        tab.show(f"rules?id={rule['id']}")
        press(tab, "Edit", ".detail")
    first.page.get_by_role("textbox", name="Rule").fill("Pass --run to jest")
    second.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    press(first, "Save", ".detail")
    expect(first.page.locator(".detail h2")).to_have_text("Pass --run to jest")
    expect(second.page.get_by_role("textbox", name="Rule")).to_have_value("Pass --run to vitest")
    second.expected.append("409")
    press(second, "Save", ".detail")
    clash = second.page.locator("[data-clash]")
    expect(clash).to_contain_text("Pass --run to jest")
    expect(clash.locator("ins")).to_have_text("vitest")
    expect(second.page.get_by_role("alert").first).to_be_visible()
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to jest"
    press(second, "Take the stored text", ".detail")
    field = second.page.get_by_role("textbox", name="Rule")
    expect(field).to_have_value("Pass --run to jest")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to jest"
    field.fill("Pass --run to vitest")
    press(first, "Edit", ".detail")
    first.page.get_by_role("textbox", name="Rule").fill("Pass --run to mocha")
    press(first, "Save", ".detail")
    expect(first.page.locator(".detail h2")).to_have_text("Pass --run to mocha")
    press(second, "Save", ".detail")
    expect(clash).to_contain_text("Pass --run to mocha")
    press(second, "Save mine over it", ".detail")
    expect(second.page.locator(".detail h2")).to_have_text("Pass --run to vitest")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to vitest"


def open_form(tab: Tab, id: str) -> None:
    tab.show(f"rules?id={id}")
    press(tab, "Edit", ".detail")


def test_an_edit_keeps_what_somebody_else_changed_in_other_fields(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    open_form(tab, rule["id"])
    tab.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    service.call("update", memory_id=rule["id"], fields={"why": "the watcher never ends"}, source="user")
    tab.expected.append("409")
    press(tab, "Save", ".detail")
    expect(tab.page.locator(".notes")).to_contain_text("somebody else changed meanwhile is kept")
    after = service.call("get", memory_id=rule["id"])
    assert (after["rule"], after["why"]) == ("Pass --run to vitest", "the watcher never ends")


def test_saving_over_a_clash_reverts_no_other_field(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    open_form(tab, rule["id"])
    tab.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    theirs = {"rule": "Pass --run to jest", "why": "the watcher never ends"}
    service.call("update", memory_id=rule["id"], fields=theirs, source="user")
    tab.expected.append("409")
    press(tab, "Save", ".detail")
    clash = tab.page.locator("[data-clash]")
    expect(clash).to_contain_text("jest")
    expect(clash).not_to_contain_text("Why")
    press(tab, "Save mine over it", ".detail")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to vitest")
    after = service.call("get", memory_id=rule["id"])
    assert (after["rule"], after["why"]) == ("Pass --run to vitest", "the watcher never ends")


def test_unsaved_text_is_there_again_after_another_row_another_page_and_signing_out(
    service: Dashboard, open_tab: Opener, expect: Any
) -> None:
    tab = open_tab(service, None)
    tab.page.goto(service.make_link())
    expect(tab.page.locator("h1")).to_have_text("Overview")
    rule = find_memory(service, "Pass --run")
    open_form(tab, rule["id"])
    field = tab.page.get_by_role("textbox", name="Rule")
    field.fill("Typed and not saved")
    row = tab.page.locator("[data-row]", has_text="Keep prices in cents")
    row.locator(".title").click()
    expect(tab.page.locator(".detail h2")).to_have_text("Keep prices in cents")
    expect(tab.page.locator("[data-row]", has_text="Pass --run")).to_contain_text("not saved")
    tab.page.go_back()
    expect(field).to_have_value("Typed and not saved")
    tab.page.locator("nav a", has_text="Health").click()
    expect(tab.page.locator("h1")).to_have_text("Health")
    tab.page.go_back()
    expect(field).to_have_value("Typed and not saved")
    other = open_tab(service, None, tab.page.context)
    other.page.goto(f"{service.url}/ui/")
    expect(other.page.locator("h1")).to_have_text("Overview")
    for one in (tab, other):
        one.expected += ["401", "ERR_"]
    press(other, "Sign out", ".side")
    expect(tab.page.get_by_role("alert")).to_contain_text("signed out")
    other.page.goto(service.make_link())
    expect(field).to_have_value("Typed and not saved")
    press(tab, "Cancel", ".detail")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to npm test")
    row.locator(".title").click()
    expect(tab.page.locator(".detail h2")).to_have_text("Keep prices in cents")
    tab.page.go_back()
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to npm test")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to npm test"


def test_a_new_rule_that_was_not_stored_is_there_again(shared: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(shared)
    tab.show("inbox")
    tab.show("rules")
    press(tab, "Add a rule")
    tab.page.get_by_label("Why").fill("customers verify it")
    tab.page.go_back()
    expect(tab.page.locator("h1")).to_have_text("Inbox")
    tab.page.go_forward()
    expect(tab.page.get_by_label("Why")).to_have_value("customers verify it")


def test_a_double_click_decides_once(tab: Tab, service: Dashboard, expect: Any) -> None:
    statuses = service.call("stats")["by_status"]
    for place in ("rules?status=candidate", "inbox"):
        tab.show(place)
        tab.page.get_by_role("button", name=f"Approve: {RETRY}").first.dblclick()
        expect(tab.page.get_by_role("status").filter(has_text="Undo")).to_be_visible()
        tab.settle()
        assert get_status(service, RETRY) == "active", place
        assert service.call("stats")["by_status"]["candidate"] == statuses["candidate"] - 1, place
        expect(tab.page.locator(".notes [role=alert] .note")).to_have_count(0)
        expect(tab.page.locator("main textarea")).to_have_count(0)
        press(tab, "Undo", ".notes")
        expect(tab.page.locator(".notes")).to_contain_text("Undone.")
        tab.page.reload()


def test_a_double_click_saves_once(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    open_form(tab, rule["id"])
    tab.page.get_by_role("textbox", name="Rule").fill("Pass --run to vitest")
    tab.page.locator(".detail button", has_text="Save").dblclick()
    expect(tab.page.locator(".notes")).to_contain_text("Saved")
    tab.settle()
    expect(tab.page.locator("[data-clash]")).to_have_count(0)
    press(tab, "Undo", ".notes")
    expect(tab.page.locator(".detail h2")).to_have_text("Pass --run to npm test")


def test_adding_a_known_rule_says_so_and_offers_what_was_typed(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("rules")
    press(tab, "Add a rule")
    tab.page.get_by_label("Rule: what to do").fill("Keep prices in cents")
    tab.page.get_by_label("When it applies").fill("writing invoices")
    press(tab, "Add the rule", "dialog")
    expect(tab.page.locator("dialog")).to_contain_text("This rule is known")
    expect(tab.page.locator(".notes")).to_contain_text("Confirmed: Keep prices in cents")
    press(tab, "Edit it", "dialog")
    expect(tab.page.get_by_role("textbox", name="When")).to_have_value("writing invoices")
    press(tab, "Save", ".detail")
    expect(tab.page.locator(".detail dl")).to_contain_text("writing invoices")
    assert find_memory(service, "Keep prices in cents")["trigger"] == "writing invoices"


def test_two_rules_are_merged_and_the_merge_undone(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("rules")
    for text in ("Pass --run", "Keep prices in cents"):
        tab.page.locator("[data-row]", has_text=text).get_by_role("checkbox").check()
    press(tab, "Merge…", "[role=group]")
    tab.page.get_by_label("Wording after the merge").fill("Pass --run and keep prices in cents")
    tab.page.locator("dialog button.main").click()
    expect(tab.page.locator(".notes")).to_contain_text("Merged")
    statuses = [get_status(service, "Pass --run and keep"), get_status(service, '"rule": "Pass --run to npm test"')]
    assert sorted(statuses) == ["active", "superseded"]
    press(tab, "Undo", ".notes")
    expect(tab.page.locator(".notes")).to_contain_text("Undone.")
    assert get_status(service, "Pass --run to npm test") == get_status(service, "Keep prices in cents") == "active"


def test_a_rule_is_added_archived_and_restored(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("rules")
    press(tab, "Add a rule")
    tab.page.get_by_label("Rule: what to do").fill("Sign every release")
    tab.page.locator("dialog").get_by_label("Where").select_option("project")
    press(tab, "Add the rule", "dialog")
    expect(tab.page.locator(".notes")).to_contain_text("Added: Sign every release")
    press(tab, "new – show")
    row = tab.page.locator("[data-row]", has_text="Sign every release")
    row.locator(".title").click()
    press(tab, "Archive", ".detail")
    expect(row.locator(".badge").first).to_have_text("archived")
    press(tab, "Restore", ".detail")
    expect(row.locator(".badge").first).to_have_text("active")
    assert get_status(service, "Sign every release") == "active"


def test_a_repaired_command_is_listed_made_a_rule_and_archived(tab: Tab, service: Dashboard, expect: Any) -> None:
    engine = service.alma.engine
    draft = draft_observation(engine, "pytest", "python -m pytest", failures=2, successes=2, trigger="running pytest")
    seen = write(engine, lambda tx: tx.put(draft)).id
    tab.show("rules")
    tab.page.get_by_role("link", name="repaired commands").click()
    row = tab.page.locator("[data-row]", has_text="“pytest” failed twice, “python -m pytest” worked twice")
    expect(row).to_be_visible()
    expect(tab.page.locator(".detail")).to_contain_text("worked twice")
    press(tab, "Make it a rule", ".detail")
    expect(row.locator(".badge").first).to_have_text("retired")
    assert find_memory(service, "Run `python -m pytest` instead of `pytest`")["status"] == "active"
    press(tab, "Undo", ".notes")
    expect(row.locator(".badge").first).to_have_text("active")
    assert service.call("browse", types=["rule"], words="pytest")["items"] == []
    row.get_by_role("checkbox").check()
    press(tab, "Archive", "[role=group]")
    expect(row.locator(".badge").first).to_have_text("archived")
    tab.show(f"rules?taught=fix&status=every&id={seen}")
    press(tab, "Restore", ".detail")
    expect(row.locator(".badge").first).to_have_text("active")


# -- conflicts


def test_a_conflict_is_decided_by_each_button_and_the_decision_undone(
    tab: Tab, service: Dashboard, expect: Any
) -> None:
    [conflict] = service.call("conflicts")
    assert "both" not in conflict["suggestions"], "two values of one key cannot both be kept"
    for button, older, newer in (("Keep 1", "active", "superseded"), ("Keep 2", "superseded", "active")):
        tab.show("inbox")
        assert tab.page.locator("button", has_text="Not a conflict").count() == 0
        pair = tab.page.locator("[data-item]", has_text="contradict")
        expect(pair.locator("del").first).to_contain_text("Postgres")
        expect(pair.locator("ins").first).to_contain_text("MySQL")
        press(tab, button, "[data-item]")
        expect(pair).to_have_count(0)
        assert (get_status(service, "Postgres 14"), get_status(service, "MySQL 8")) == (older, newer)
        assert service.call("conflicts") == []
        press(tab, "Undo", ".notes")
        expect(pair).to_have_count(1)
        assert len(service.call("conflicts")) == 1
        tab.page.reload()


def test_two_memories_that_do_not_contradict_each_other_are_kept_and_not_asked_about_again(
    empty: Dashboard, open_tab: Opener, expect: Any
) -> None:
    facts = ("The billing service runs on Postgres 14", "The billing service runs on MySQL 8")
    for fact in facts:
        empty.alma.add_domain_knowledge(AGENT, "ops", fact)
    asked = ALMA(empty.alma.engine.store, HashEmbedder(), project_id=PROJECT, model=Model("contradicts", 0.5))
    assert len(asked.consolidate().conflicts) == 1
    tab = open_tab(empty)
    tab.show("inbox")
    press(tab, "Not a conflict", "[data-item]")
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(0)
    assert {get_status(empty, fact) for fact in facts} == {"active"}
    assert asked.consolidate().conflicts == ()
    press(tab, "Undo", ".notes")
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(1)
    assert {get_status(empty, fact) for fact in facts} == {"active"}, "only the decision is undone"


def test_a_conflict_is_split_by_place(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("inbox")
    press(tab, "split by place")
    fields = tab.page.locator("dialog textarea")
    fields.nth(0).fill("In staging")
    fields.nth(1).fill("In production")
    press(tab, "Split", "dialog")
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(0)
    assert find_memory(service, "Postgres 14")["fact"] == "In staging: Billing runs on Postgres 14"
    assert find_memory(service, "MySQL 8")["fact"] == "In production: Billing runs on MySQL 8"


def test_the_merge_of_a_conflict_keeps_the_suggested_side_and_its_undo_brings_the_conflict_back(
    tab: Tab, service: Dashboard, expect: Any
) -> None:
    [conflict] = service.call("conflicts")
    assert conflict["suggestions"][0] == "older"
    tab.show("inbox")
    line, badge = tab.page.locator(".head p").first, tab.page.locator("nav .badge")
    before = line.inner_text()
    press(tab, "Merge…", "[data-item]")
    expect(tab.page.locator("dialog dd").first).to_have_text(conflict["older"]["fact"])
    tab.page.locator("dialog button.main").click()
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(0)
    total = sum(service.call("inbox")["counts"].values())
    expect(line).to_contain_text(f"{total} items wait")
    expect(badge).to_have_text(f"{total} waiting")
    press(tab, "Undo", ".notes")
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(1)
    expect(line).to_have_text(before)
    expect(badge).to_have_text(f"{total + 1} waiting")
    assert len(service.call("conflicts")) == 1
    press(tab, "Merge…", "[data-item]")
    tab.page.get_by_label("Wording after the merge").fill("Billing moves from Postgres 14 to MySQL 8")
    tab.page.locator("dialog button.main").click()
    expect(tab.page.locator("[data-item]", has_text="contradict")).to_have_count(0)
    assert service.call("conflicts") == []
    assert find_memory(service, "Billing moves from")["status"] == "active"


def test_a_conflict_of_long_texts_shows_what_differs(empty: Dashboard, open_tab: Opener, expect: Any) -> None:
    text = " ".join(f"Step {number} of the long procedure is described here." for number in range(60))
    for colour, source in (("blue", "user"), ("green", "agent")):
        fact = f"{text} Finally use the {colour} cluster."
        key = {"subject": "deploy", "attribute": "procedure"}
        empty.call("add_knowledge", agent=AGENT, domain="ops", fact=fact, source=source, **key)
    tab = open_tab(empty)
    tab.show("inbox")
    pair = tab.page.locator("[data-item]")
    expect(pair.locator("del")).to_have_text("blue")
    expect(pair.locator("ins")).to_have_text("green")
    expect(pair).not_to_contain_text("Step 30 of")
    press(tab, "show all", "[data-item]")
    expect(pair).to_contain_text("Step 30 of")


def test_a_long_text_of_a_list_can_be_read(empty: Dashboard, open_tab: Opener, expect: Any) -> None:
    text = "Long " + "word " * 900 + "the end"
    empty.call("add_knowledge", agent=AGENT, domain="ops", fact=text, source="content")
    empty.call("add_preference", user_id="zoe", category="style", preference=text, source="user")
    tab = open_tab(empty)
    for place in ("profiles", "inbox"):
        tab.show(place)
        expect(tab.page.locator("main")).not_to_contain_text("the end")
        press(tab, "show all")
        expect(tab.page.locator("main")).to_contain_text("the end")


def test_the_numbers_of_the_inbox_agree_and_older_ones_are_not_new(tab: Tab, service: Dashboard, expect: Any) -> None:
    add_rules(service, 25, "Waiting rule number")
    tab.show("inbox")
    for _ in range(3):
        tab.page.locator("li[data-item]", has_text="Waiting rule").first.get_by_role("button", name="Reject").click()
        expect(tab.page.locator(".notes")).to_contain_text("Rejected")
        tab.page.get_by_role("button", name="Dismiss").click()
        counts = service.call("inbox")["counts"]
        expect(tab.page.locator(".head p").first).to_contain_text(f"{sum(counts.values())} items wait")
        expect(tab.page.locator(".head p").first).to_contain_text(f"{counts['candidates']} new memories")
        expect(tab.page.locator("nav .badge")).to_have_text(f"{sum(counts.values())} waiting")
    left = tab.page.locator("[data-item]").count()
    expect(tab.page.locator("main")).to_contain_text(f"{sum(counts.values()) - left} more follow")
    expect(tab.page.locator(".fresh")).to_have_count(0)
    service.call("add_rule", agent=AGENT, rule="A rule that came later", source="agent")
    expect(tab.page.locator(".fresh")).to_contain_text("1 new")


def test_a_promotion_is_decided_and_its_undo_undoes_the_promotion(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Write log lines in English")
    tab.show("inbox")
    expect(tab.page.locator("[data-item]", has_text="promotion")).to_contain_text("web-shop")
    press(tab, "Everywhere", "[data-item]")
    expect(tab.page.locator("[data-item]", has_text="promotion")).to_have_count(0)
    expect(tab.page.locator(".notes")).to_contain_text("every project")
    assert find_memory(service, "Write log lines in English")["reach"] == "always"
    service.call("update", memory_id=rule["id"], tags=["logs"])
    press(tab, "Undo", ".notes")
    expect(tab.page.locator("[data-item]", has_text="promotion")).to_have_count(1)
    after = service.call("get", memory_id=rule["id"])
    assert (after["reach"], after["tags"]) == ("project", ["logs"])


# -- many


def test_a_bulk_decision_applies_to_what_is_filtered(tab: Tab, service: Dashboard, expect: Any) -> None:
    add_rules(service, 30, "Bulk rule number")
    tab.show("rules?status=candidate&q=bulk")
    tab.page.get_by_label("Select this page").check()
    press(tab, "Select all 30 of this filter")
    press(tab, "Approve", "[role=group]")
    expect(tab.page.locator(".notes")).to_contain_text("Approved 30.")
    assert get_status(service, RETRY) == "candidate"
    assert service.call("browse", types=["rule"], statuses=["active"], words="bulk")["count"] == 30


def test_a_bulk_decision_about_all_is_offered_where_it_applies(tab: Tab, service: Dashboard, expect: Any) -> None:
    add_rules(service, 30, "Bulk rule number")
    tab.show("rules")
    count = service.call("browse", types=["rule"])["count"]
    tab.page.get_by_label("Select this page").check()
    group = tab.page.get_by_role("group")
    press(tab, f"Select all {count} of this filter")
    expect(group.get_by_role("button")).to_have_text(["Archive", "Clear"])
    service.call("add_rule", agent=AGENT, rule="Another rule that was not seen", source="agent")
    tab.expected.append("409")
    press(tab, "Archive", "[role=group]")
    expect(tab.page.locator(".notes [role=alert]")).to_contain_text(str(count + 1))
    expect(group).to_contain_text(f"All {count + 1} rules of this filter")
    tab.page.reload()
    tab.settle()
    tab.page.get_by_label("Select this page").check()
    press(tab, f"Select all {count + 1} of this filter")
    press(tab, "Archive", "[role=group]")
    expect(tab.page.locator(".empty")).to_contain_text("No rule is active or waiting")
    tab.page.get_by_role("link", name="no longer used").click()
    expect(tab.page.locator("[data-row]").first).to_be_visible()


def test_a_bulk_decision_on_a_changed_list_is_refused(tab: Tab, service: Dashboard, expect: Any) -> None:
    add_rules(service, 30, "Bulk rule number")
    tab.show("rules?status=candidate")
    count = service.call("browse", types=["rule"], statuses=["candidate"])["count"]
    tab.page.get_by_label("Select this page").check()
    press(tab, f"Select all {count} of this filter")
    service.call("add_rule", agent=AGENT, rule="Another rule that was not seen", source="agent")
    tab.expected.append("409")
    press(tab, "Approve", "[role=group]")
    expect(tab.page.locator(".notes [role=alert]")).to_contain_text(str(count + 1))
    assert service.call("browse", types=["rule"], statuses=["candidate"])["count"] == count + 1


# -- erasing


@pytest.mark.parametrize("scope", ["read", "write", "approve"])
def test_only_an_admin_can_erase(shared: Dashboard, open_tab: Opener, scope: str) -> None:
    rule = find_memory(shared, "Pass --run")
    tab = open_tab(shared, scope)
    tab.show(f"rules?id={rule['id']}")
    assert tab.page.locator("button", has_text="Erase").count() == 0
    session = tab.page.evaluate("JSON.parse(sessionStorage.getItem('alma.session')).token")
    assert shared.post("v1/delete", {"memory_id": rule["id"]}, session).status_code == 403
    tab.show("sessions?session=session-0")
    assert tab.page.locator("button", has_text="Erase").count() == 0


def test_erasing_asks_for_the_first_words(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    tab = open_tab(service, "admin")
    tab.show(f"rules?id={rule['id']}")
    press(tab, "Erase…", ".detail")
    erase = tab.page.locator("dialog button.danger")
    expect(erase).to_be_disabled()
    tab.page.get_by_label("Type its first words").fill("pass --run to")
    erase.click()
    expect(tab.page.locator(".notes")).to_contain_text("erased")
    assert service.post("v1/get", {"memory_id": rule["id"]}).status_code == 404
    expect(tab.page.locator("[data-row]", has_text="Pass --run")).to_have_count(0)


def test_a_session_is_erased(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(service, "admin")
    tab.show("sessions?session=session-0", "Fix the total")
    press(tab, "Erase this session…")
    tab.page.get_by_label("Type its first words").fill("fix the total")
    tab.page.locator("dialog button.danger").click()
    expect(tab.page.locator("h1")).to_have_text("Sessions")
    expect(tab.page.locator("td", has_text="Fix the total")).to_have_count(0)


def test_a_read_only_session_offers_no_change(shared: Dashboard, open_tab: Opener) -> None:
    tab = open_tab(shared, "read")
    words = (
        "Approve",
        "Reject",
        "Edit",
        "Archive",
        "Merge",
        "Keep ",
        "Revert",
        "Add a",
        "Erase",
        "Everywhere",
        "Restore",
    )
    for address in (
        "rules",
        "inbox",
        "strategies",
        "profiles",
        "profiles?of=facts",
        "history",
        "memory?id=" + find_memory(shared, "Tuesdays")["id"],
    ):
        tab.show(address)
        labels = tab.page.locator("main button").all_inner_texts()
        assert [one for one in labels if one.startswith(words)] == [], address


def test_a_token_that_may_write_is_offered_what_it_may_do(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    rule, fact = find_memory(service, "Pass --run"), find_memory(service, "Tuesdays")
    stated = service.call("add_knowledge", agent=AGENT, domain="ops", fact="Backups run at night", source="user")
    tab = open_tab(service, "write")
    tab.show(f"rules?id={rule['id']}")
    expect(tab.page.locator("main .warning").first).to_contain_text("scope write")
    assert tab.page.locator(".detail [data-do]").count() == 0
    tab.show(f"memory?id={stated['id']}")
    assert tab.page.locator(".detail [data-do]").count() == 0
    own = service.post(
        "v1/add_knowledge", {"agent": AGENT, "domain": "ops", "fact": "Agents rotate logs", "source": "agent"}
    )
    tab.show(f"memory?id={own.json()['id']}")
    expect(tab.page.locator(".detail [data-do]")).to_have_text([re.compile("Edit"), "Archive"])
    press(tab, "Archive", ".detail")
    expect(tab.page.locator(".notes")).to_contain_text("Archived")
    tab.show("history")
    rows = tab.page.locator("[data-row]")
    expect(rows.first).to_contain_text("Agents rotate logs")
    expect(rows.first.get_by_role("button", name="Revert")).to_be_visible()
    assert rows.nth(1).get_by_role("button", name="Revert").count() == 0, "somebody else made that change"
    assert fact["id"] != stated["id"]


# -- live


def test_a_change_shows_in_a_second_tab(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    first, second = open_tab(service), open_tab(service)
    for tab in (first, second):
        tab.show("rules?status=candidate")
        expect(tab.page.locator(".brand .badge")).to_have_text("live")
    first.page.get_by_role("button", name=f"Approve: {RETRY}").first.click()
    row = second.page.locator("[data-row]", has_text=RETRY)
    expect(row.locator(".badge", has_text="active")).to_be_visible()
    service.call("add_rule", agent=AGENT, rule="A rule of another program", source="agent")
    expect(second.page.locator(".fresh")).to_contain_text("1 new – show")
    assert second.page.locator("[data-row]", has_text="another program").count() == 0
    press(second, "1 new – show")
    expect(second.page.locator("[data-row]", has_text="another program")).to_be_visible()


def test_a_page_without_a_stream_polls_and_nothing_is_missed(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(service)
    # The ten seconds between two questions are one here.
    tab.page.add_init_script(
        "const wait = window.setTimeout; window.setTimeout = (action, pause, ...rest) =>"
        " wait(action, pause === 10_000 ? 1000 : pause, ...rest);"
    )
    tab.show("rules")
    badge = tab.page.locator(".brand .badge")
    expect(badge).to_have_text("live")
    tab.expected += ["ERR_INTERNET_DISCONNECTED", "ERR_FAILED", "Failed to load", "ERR_NETWORK"]
    tab.page.context.set_offline(True)
    tab.page.evaluate("import('/ui/session.js').then((session) => session.restartStream())")
    expect(badge).to_have_text("every 10 s")
    service.call("add_rule", agent=AGENT, rule="Stored while the stream was cut", source="user")
    tab.page.context.set_offline(False)
    expect(badge).to_have_text("live")
    expect(tab.page.locator(".fresh")).to_contain_text("1 new")


BREAKABLE_STREAM = """
(() => {
  const send = window.fetch;
  window.__streams = [];
  window.fetch = async (url, options) => {
    if (!String(url).includes("/v1/events")) return send(url, options);
    window.__streams.push(String(url));
    if (window.__isCut) throw new TypeError("network error");
    const answer = await send(url, options);
    const broken = new TransformStream({ start: (controller) => {
      window.__cut = () => (window.__isCut = true, controller.error(new TypeError("network error"))); } });
    return new Response(answer.body.pipeThrough(broken), { status: answer.status });
  };
})();
"""
"""Wraps the stream of events, so that `__cut` breaks it and keeps it broken until `__isCut` is false."""


@pytest.mark.parametrize("page", ["rules", "history"])
def test_a_broken_stream_goes_on_at_its_position_without_losing_or_repeating_a_row(
    service: Dashboard, open_tab: Opener, expect: Any, page: str
) -> None:
    tab = open_tab(service)
    tab.page.context.add_init_script(BREAKABLE_STREAM)
    tab.show(page)
    badge, fresh = tab.page.locator(".brand .badge"), tab.page.locator(".fresh")
    expect(badge).to_have_text("live")
    service.call("add_rule", agent=AGENT, rule="Stored before the break", source="user")
    expect(fresh).to_contain_text("1 new")
    tab.page.evaluate("window.__cut()")
    service.call("add_rule", agent=AGENT, rule="Stored during the break", source="user")
    tab.page.wait_for_timeout(300)
    tab.page.evaluate("window.__isCut = false")
    expect(fresh).to_contain_text("2 new")
    service.call("add_rule", agent=AGENT, rule="Stored after the break", source="user")
    expect(fresh).to_contain_text("3 new")
    tab.page.wait_for_timeout(1500)
    expect(fresh).to_contain_text("3 new")
    first, *later = ("after=" in one for one in tab.page.evaluate("window.__streams"))
    assert not first
    assert later
    assert all(later), "each new connection names the position of the last event"
    press(tab, "3 new – show")
    for when in ("before", "during", "after"):
        expect(tab.page.locator("[data-row]", has_text=f"Stored {when} the break")).to_have_count(1)


HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_closes_its_stream_and_misses_nothing(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(service)
    tab.show("rules")
    badge = tab.page.locator(".brand .badge")
    expect(badge).to_have_text("live")
    tab.page.evaluate(HIDE, True)
    expect(badge).to_have_text("paused")
    service.call("add_rule", agent=AGENT, rule="Stored behind the back of the tab", source="user")
    streams = [one for one in tab.requests if "/v1/events" in one.url]
    tab.page.evaluate(HIDE, False)
    expect(badge).to_have_text("live")
    expect(tab.page.locator(".fresh")).to_contain_text("1 new")
    assert len([one for one in tab.requests if "/v1/events" in one.url]) == len(streams) + 1


def test_a_restarted_service_asks_to_run_the_command_and_keeps_what_was_typed(
    service: Dashboard, open_tab: Opener, expect: Any
) -> None:
    tab = open_tab(service)
    rule = find_memory(service, "Pass --run")
    tab.show(f"rules?id={rule['id']}")
    press(tab, "Edit", ".detail")
    tab.page.get_by_role("textbox", name="Rule").fill("Typed before the restart")
    tab.expected += ["401", "ERR_", "Failed to load"]
    service.stop()
    after = start_service(service.folder, service.port)
    try:
        alert = tab.page.locator(".error[role=alert]", has_text="alma dashboard").first
        expect(alert).to_be_visible()
        expect(tab.page.get_by_role("textbox", name="Rule")).to_have_value("Typed before the restart")
        again = open_tab(after, None, tab.page.context)
        again.page.goto(after.make_link())
        expect(again.page.locator("h1")).to_have_text("Overview")
        press(tab, "Save", ".detail")
        expect(tab.page.locator(".detail h2")).to_have_text("Typed before the restart")
        again.page.close()
    finally:
        after.stop()


def test_a_change_is_reverted_on_the_history_page(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    service.call("update", memory_id=rule["id"], fields={"rule": "Pass --run to jest"}, source="user")
    tab.show("history")
    change = tab.page.locator("[data-row]").first
    expect(change).to_contain_text("jest")
    change.get_by_role("button", name="Revert").click()
    expect(tab.page.locator(".notes")).to_contain_text("Reverted")
    assert service.call("get", memory_id=rule["id"])["rule"] == "Pass --run to npm test"


def test_a_message_can_be_reached_while_a_dialog_is_open(tab: Tab, service: Dashboard, expect: Any) -> None:
    rule = find_memory(service, "Pass --run")
    for why in ("first", "second"):
        service.call("update", memory_id=rule["id"], fields={"why": why}, source="user")
    tab.show(f"rules?id={rule['id']}")
    press(tab, "History", ".detail")
    buttons = tab.page.locator("dialog").get_by_role("button", name="Revert")
    expect(buttons).to_have_count(2)
    buttons.first.click()
    expect(tab.page.locator("dialog")).to_contain_text("reverted")
    press(tab, "Undo", "dialog .notes")
    expect(tab.page.locator(".notes")).to_contain_text("Undone.")
    assert service.call("get", memory_id=rule["id"])["why"] == "second"
    expect(tab.page.locator("dialog")).to_have_count(1)


def test_choosing_the_other_one_of_a_merge_leads_to_its_wording(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show(f"rules?id={find_memory(service, 'Pass --run')['id']}")
    press(tab, "Merge…", ".detail")
    tab.page.get_by_label("Find the other one").fill("prices in cents")
    press(tab, "Choose", "dialog")
    expect(tab.page.get_by_label("Wording after the merge")).to_be_focused()


def test_no_row_moves_when_something_new_is_announced(tab: Tab, service: Dashboard, expect: Any) -> None:
    for place in ("rules", "history", "sessions", "inbox"):
        tab.show(place)
        expect(tab.page.locator(".brand .badge")).to_have_text("live")
        row = tab.page.locator("[data-row], [data-item], tbody tr").nth(2)
        before = row.bounding_box()
        if place == "sessions":
            service.call("add_episode", agent=AGENT, session_id="later", turns=[{"speaker": "user", "text": "Later"}])
        else:
            service.call("add_rule", agent=AGENT, rule=f"A rule of another program for {place}", source="agent")
        expect(tab.page.locator(".fresh")).to_contain_text("1 new")
        assert row.bounding_box() == before, place
        if place == "rules":
            tab.page.locator("[data-row]").nth(3).get_by_role("checkbox").check()
            expect(tab.page.get_by_role("group")).to_be_visible()
            assert row.bounding_box() == before


def test_a_filter_without_a_result_says_so(shared: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(shared)
    for place in ("strategies", "profiles", "rules"):
        tab.show(f"{place}?q=zzzz")
        expect(tab.page.locator(".empty")).to_contain_text("fits this filter")


def test_what_is_typed_in_a_filter_does_not_reach_another_page(tab: Tab, expect: Any) -> None:
    tab.show("rules")
    tab.page.evaluate(
        """() => { const field = document.querySelector("[data-filter]"); field.value = "pnpm";
           field.dispatchEvent(new Event("input", {bubbles: true})); location.hash = "#/strategies"; }"""
    )
    expect(tab.page.locator("h1")).to_have_text("Strategies")
    tab.settle()
    tab.page.wait_for_timeout(200)
    assert "pnpm" not in tab.page.url


def test_strategies_of_several_agents_name_theirs(empty: Dashboard, open_tab: Opener, expect: Any) -> None:
    for number in range(6):
        empty.call(
            "learn", agent="writer", task=f"Write chapter {number}", outcome="success", strategy_used="Outline first"
        )
        result = "partial" if number % 2 else "success"
        empty.call("learn", agent="coder", task=f"Fix bug {number}", outcome=result, strategy_used="Bisect the history")
    tab = open_tab(empty)
    tab.show("strategies")
    row = tab.page.locator("[data-row]", has_text="Bisect the history")
    expect(row).to_contain_text("coder")
    expect(row).to_contain_text("worked 3 of 6, 3 partly")
    tab.page.locator("summary", has_text="How likely").click()
    tab.page.locator("details.panel").get_by_label("Agent").select_option("writer")
    tab.page.get_by_label("Strategy", exact=True).fill("Outline first")
    tab.page.get_by_label("Situation").fill("Write chapter 7")
    with tab.page.expect_request("**/assess_confidence") as asked:
        press(tab, "Ask")
    assert asked.value.post_data_json["agent"] == "writer"
    expect(tab.page.locator("details.panel")).to_contain_text("of 6 tries")
    expect(tab.page.locator("details.panel")).to_contain_text("90 % interval")


def test_keys_act_on_a_chosen_rule_that_is_not_on_the_page(tab: Tab, service: Dashboard, expect: Any) -> None:
    add_rules(service, 30, "Later rule number", "user")
    tab.show(f"rules?id={find_memory(service, RETRY)['id']}")
    expect(tab.page.locator(".detail h2")).to_have_text(RETRY)
    assert tab.page.locator("[data-row]", has_text=RETRY).count() == 0
    tab.page.keyboard.press("a")
    expect(tab.page.locator(".notes")).to_contain_text("Approved")
    assert get_status(service, RETRY) == "active"


def test_the_user_filter_lists_users_of_other_pages(empty: Dashboard, open_tab: Opener, expect: Any) -> None:
    empty.call("add_preference", user_id="ana", category="style", preference="Short answers", source="user")
    wish = {"type": "user_preference", "user_id": "zoe", "category": "style", "source": "user"}
    empty.alma.add_many([{**wish, "preference": f"Wish {number}"} for number in range(30)])
    tab = open_tab(empty)
    tab.show("profiles")
    expect(tab.page.get_by_role("combobox", name="User", exact=True).locator("option")).to_have_text(
        ["all users", "ana", "zoe"]
    )


def test_a_page_whose_script_could_not_be_loaded_is_loaded_again(tab: Tab, expect: Any) -> None:
    tab.expected += ["ERR_FAILED", "Failed to load", "Failed to fetch"]
    tab.page.route("**/pages/spend.js*", lambda route: route.abort())
    tab.page.goto(f"{tab.service.url}/ui/#/spend")
    expect(tab.page.locator("main [role=alert]")).to_contain_text("could not be loaded")
    tab.page.unroute("**/pages/spend.js*")
    press(tab, "Try again")
    expect(tab.page.locator("h1")).to_have_text("Spend")


def test_the_spend_page_shows_what_is_left_of_each_limit(tab: Tab, service: Dashboard, expect: Any) -> None:
    limits = BudgetLimits(calls=10, cost=1.0)
    service.alma.model_settings = ModelSettings(budget=limits)
    engine = service.alma.engine
    settle(engine, reserve(engine, limits, "small", 100, 0.1), (80, 20, 0.25))
    tab.show("spend")
    expect(tab.page.locator(".tile", has_text="Left today")).to_contain_text("9 calls, $0.750")
    expect(tab.page.locator(".tile", has_text="Left today")).to_contain_text("of 10 calls, $1.00 a day")


def test_the_pages_name_the_check_of_the_hooks(empty: Dashboard, open_tab: Opener, expect: Any) -> None:
    tab = open_tab(empty)
    for page in ("overview", "health", "rules", "inbox", "sessions"):
        tab.show(page)
        expect(tab.page.locator("main")).to_contain_text("claude-smart doctor")
    empty.alma.retrieve("anything", AGENT)
    old = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    turns = [{"speaker": "user", "text": "Long ago", "at": old}]
    empty.call("add_episode", agent=AGENT, session_id="old", turns=turns)
    tab.show("overview")
    expect(tab.page.locator(".tile").first).to_contain_text("Not now")
    tab.show("health")
    expect(tab.page.locator("tr", has_text="Capture").first).to_contain_text("last turn captured 3 days ago")


def test_asking_why_records_nothing(tab: Tab, service: Dashboard, expect: Any) -> None:
    before = service.call("list_changes", limit=1)["items"]
    tab.show("why")
    tab.page.get_by_label("Task").fill("run the tests of the cart package")
    press(tab, "Ask")
    expect(tab.page.locator("table")).to_contain_text("Pass --run to npm test")
    expect(tab.page.locator(".told")).to_contain_text("Pass --run to npm test")
    expect(tab.page.locator("main")).to_contain_text("claude-smart show --playbook")
    assert service.call("list_changes", limit=1)["items"] == before


def test_a_memory_that_waits_is_called_so(tab: Tab, service: Dashboard, expect: Any) -> None:
    waiting = service.call("add_rule", agent="claude-code", rule="Run the tests in a container", source="agent")
    assert waiting["status"] == "candidate"
    tab.show("why?task=run+the+tests+in+a+container&agent=claude-code")
    row = tab.page.locator("tr", has_text="Run the tests in a container")
    expect(row).to_contain_text("its status is 'waiting'")
    tab.show(f"why?task=run+the+tests&agent=claude-code&memory={waiting['id']}")
    expect(tab.page.locator("main")).not_to_contain_text("candidate")


def test_another_question_leaves_nothing_of_the_one_before(tab: Tab, service: Dashboard, expect: Any) -> None:
    tab.show("why?task=run+the+tests&agent=claude-code&since=2020-01-01")
    press(tab, "When did it first differ?")
    point = tab.page.locator(".halves [role=status]")
    expect(point).to_contain_text("First differed")
    field = tab.page.get_by_label("Task")
    field.fill("deploy a release")
    press(tab, "Ask")
    expect(tab.page).to_have_url(re.compile("deploy"))
    tab.settle()
    expect(point).not_to_contain_text("First differed")
    tab.page.go_back()
    expect(field).to_have_value("run the tests")
    tab.expected.append("400")
    tab.page.evaluate("location.hash = '#/why?task=run+the+tests&agent=%00'")
    expect(tab.page.locator("main .error")).to_be_visible()
    expect(tab.page.locator("main table")).to_have_count(0)


def test_a_day_is_a_day_of_this_place_and_includes_its_end(service: Dashboard, open_tab: Opener, expect: Any) -> None:
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        tab = open_tab(service, timezone_id=zone)
        tab.show("history")
        today = tab.page.evaluate("new Date().toLocaleDateString('sv')")
        yesterday = tab.page.evaluate("new Date(Date.now() - 86400000).toLocaleDateString('sv')")
        tab.show(f"history?since={today}&until={today}")
        expect(tab.page.locator("[data-row]").first).to_be_visible()
        tab.show(f"history?since={yesterday}&until={yesterday}")
        expect(tab.page.locator(".empty")).to_contain_text("Nothing changed")
        tab.show(f"why?task=run+the+tests&agent=claude-code&as_of={today}")
        expect(tab.page.locator(".told")).to_contain_text("Pass --run to npm test")
        tab.show(f"why?task=run+the+tests&agent=claude-code&as_of={yesterday}")
        expect(tab.page.locator(".told", has_text="Pass --run to npm test")).to_have_count(0)
