"""Texts written to run, to hide or to break something: each is shown as what it is, on every page, in every field."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from .conftest import AGENT, Dashboard, Opener, Tab

pytestmark = [pytest.mark.browser, pytest.mark.system]

TEXTS = {
    "script": "<script>window.__xss=1</script>",
    "image": "<img src=x onerror='window.__xss=2'>",
    "svg": "<svg/onload=window.__xss=3><style>*{display:none}</style>",
    "attribute": '" autofocus onfocus="window.__xss=4" x=\'',
    "comment": "--></textarea></title></script><iframe srcdoc='<script>parent.__xss=5</script>'>",
    "address": "javascript:window.__xss=6 [a](javascript:window.__xss=6) http://127.0.0.1:9/x data:text/html,<b>",
    "templates": "{{constructor.constructor('window.__xss=7')()}} ${window.__xss=7} <%= 7*7 %> `${window.__xss=7}`",
    "prototype": '__proto__ constructor [object Object] {"__html": "<img src=x onerror=window.__xss=8>"}',
    "directions": "photo_\u202egnp.exe\u202c \u2066isolated\u2069 \u200fmark \u061cmark",
    "invisible": "pay\u200bpal\u200d \u2060joined\ufeff soft\u00adhyphen \U000e0041\U000e0042 tag",
    "scripts": "مرحبا שלום 你好 e\u0301\u0327\u0489 👩\u200d👩\u200d👧 ﷽ Z\u0351\u0302\u0348\u0324",
    "lines": "first\r\nsecond\rthird\u2028fourth\u2029fifth\ttab",
}
REFUSED = {
    "controls": "bell\u0007 escape\u001b[31m back\u0008space del\u007f",
    "NUL": "before\u0000after",
    "surrogates": "lone \ud800 high, lone \udc00 low",
}
"""Texts that no operation stores; a store of another program may hold them."""
GROUPS = {
    "markup": ("script", "image", "svg", "attribute"),
    "ends and addresses": ("comment", "address"),
    "expressions": ("templates", "prototype"),
    "characters": ("directions", "invisible", "scripts", "lines"),
}
"""Texts that are stored together as one, so that each page is loaded once for all of them."""
LONGEST_NAME = 200
TURN = 100_000
LONG = ("word<b> \u202e " * 100_000)[:1_000_000]
READ_TEXTS = """() => [...document.querySelectorAll("main .memory")].map((one) => [...one.childNodes].map((node) =>
  node.classList?.contains("odd") ? String.fromCodePoint(parseInt(node.textContent.slice(2), 16)) : node.textContent)
  .join(""))"""


def post_raw(service: Dashboard, operation: str, arguments: dict[str, Any]) -> httpx.Response:
    """Call an operation with JSON in which every character is escaped, so that lone surrogates arrive."""
    headers = {"authorization": f"Bearer {service.token}", "content-type": "application/json"}
    body = json.dumps(arguments).encode("ascii")
    return service.client.post(f"v1/{operation}", content=body, headers=headers)


def store_everywhere(service: Dashboard, text: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Store a text in every field of every kind; return what was stored, and what was refused with the reason."""
    stored, refused = [], {}

    def add(operation: str, **arguments: Any) -> None:
        answer = post_raw(service, operation, arguments)
        if answer.status_code == 200:
            stored.append(answer.json())
            return
        assert answer.status_code == 400, answer.text
        changed = [name for name, value in arguments.items() if text in json.dumps(value, ensure_ascii=False)]
        refused[f"{operation} {' '.join(changed)}"] = answer.json()["detail"]

    for source in ("user", "agent", "content"):
        add("add_rule", agent=AGENT, rule=f"{source} {text}", trigger=text, why=text, source=source)
    add("add_heuristic", agent=AGENT, condition=text, strategy=text)
    add("add_anti_pattern", agent=AGENT, pattern=text, why_bad=text, better_alternative=text, condition=text)
    add("add_preference", user_id="ana", category="style", preference=text)
    add("add_preference", user_id=text, category=text, preference=f"named {text}")
    add("add_knowledge", agent=AGENT, domain="ops", fact=text)
    add("add_knowledge", agent=text, domain=text, fact=f"named {text}", tags=[text], metadata={text: text})
    add("add_knowledge", agent=AGENT, domain="ops", fact=f"A {text}", subject="a", attribute="b", source="user")
    add("add_knowledge", agent=AGENT, domain="ops", fact=f"B {text}", subject="a", attribute="b", source="agent")
    add("learn", agent=AGENT, task=text, outcome="failure", strategy_used=text, error_message=text, feedback=text)
    turns = [{"speaker": "user", "text": text}, {"speaker": text, "text": text}]
    add("add_episode", agent=AGENT, session_id="hostile", turns=turns, title=text[:500])
    add("add_episode", agent=AGENT, session_id="hostile-2", turns=turns[:1], title=text[:500])
    add("add_episode", agent=AGENT, session_id=text, turns=turns[:1])
    post_raw(service, "retrieve", {"task": text, "agent": AGENT})
    return stored, refused


def list_pages(stored: list[dict[str, Any]], task: str) -> list[str]:
    """Return the addresses of all pages, and of each stored memory."""
    names = (
        "overview inbox rules?status=every strategies?status=every sessions profiles profiles?of=facts history health"
    )
    ids = [one["id"] for one in stored if one["type"] != "episode"]
    sessions = [f"sessions?session={one['id']}" for one in stored if one["type"] == "episode"]
    asked = [f"why?task={quote(task.encode('utf-8', 'replace'))}&agent={AGENT}"]
    return [*names.split(), "settings", *sessions, *asked, *(f"memory?id={one}" for one in ids)]


FIELDS = {
    "rule": ["rule", "trigger", "why"],
    "heuristic": ["strategy", "condition"],
    "anti_pattern": ["pattern", "condition", "why_bad", "better_alternative"],
    "user_preference": ["preference", "category"],
    "domain_knowledge": ["fact", "domain"],
    "outcome": ["task_description"],
}


def check_texts(tab: Tab, service: Dashboard, memory: dict[str, Any]) -> None:
    """The page of a memory shows each of its fields as it is stored, hidden characters as marks."""
    shown = tab.page.evaluate(READ_TEXTS)
    whole = service.call("get", memory_id=memory["id"])
    for name in FIELDS[memory["type"]]:
        if whole[name]:
            assert any(one == whole[name] or (len(one) >= 2000 and whole[name].startswith(one)) for one in shown), (
                memory["type"], name, whole[name][:200], [one[:200] for one in shown],
            )  # fmt: skip


LOOK = """() => ({
  xss: window.__xss ?? null,
  foreign: document.querySelectorAll("main :is(script, img, iframe, style, b)").length,
  errors: document.querySelectorAll("main [role=alert].error").length,
})"""
HARMLESS = {"xss": None, "foreign": 0, "errors": 0}


def test_every_text_is_in_a_group() -> None:
    assert sorted(chain.from_iterable(GROUPS.values())) == sorted(TEXTS)


@pytest.mark.parametrize("group", GROUPS)
def test_a_text_is_shown_as_it_was_stored_and_runs_nowhere(empty: Dashboard, open_tab: Opener, group: str) -> None:
    text = " ".join(TEXTS[name] for name in GROUPS[group])
    assert len(text) <= LONGEST_NAME
    stored, refused = store_everywhere(empty, text)
    assert refused == {}
    assert {one["type"] for one in stored} >= {"rule", "heuristic", "anti_pattern", "outcome", "episode"}
    tab = open_tab(empty, "admin")
    tab.page.goto(f"{empty.url}/ui/#/overview")
    memories = {f"memory?id={one['id']}": one for one in stored}
    for address in list_pages(stored, text):
        tab.page.evaluate("(address) => (location.hash = address)", f"#/{address}")
        tab.settle()
        assert tab.page.evaluate(LOOK) == HARMLESS, address
        if address in memories:
            check_texts(tab, empty, memories[address])
    hidden = tab.page.evaluate(
        """() => /[\\u202a-\\u202e\\u2066-\\u2069\\u200b\\u2060\\ufeff]/.test(document.body.innerText)"""
    )
    assert not hidden


def test_a_text_that_is_no_text_is_refused_with_the_reason(empty: Dashboard) -> None:
    for name, text in REFUSED.items():
        stored, refused = store_everywhere(empty, text)
        assert stored == [], name
        assert len(refused) >= 7, name
        assert all("character" in why for why in refused.values()), name


def test_the_page_survives_a_text_that_a_store_should_not_hold(empty: Dashboard, open_tab: Opener) -> None:
    text = " ".join(REFUSED.values()) + TEXTS["image"]
    stored, _ = store_everywhere(empty, "MARKER")
    tab = open_tab(empty, "admin")

    def answer(route: Any) -> None:
        fetched = route.fetch()
        body = fetched.text().replace("MARKER", json.dumps(text)[1:-1])
        route.fulfill(status=fetched.status, headers=fetched.headers, body=body)

    tab.page.route(lambda url: "/v1/" in url and "events" not in url, answer)
    tab.page.goto(f"{empty.url}/ui/#/overview")
    for address in list_pages(stored, "MARKER"):
        tab.page.evaluate("(address) => (location.hash = address)", f"#/{address}")
        tab.settle()
        assert tab.page.evaluate("window.__xss") is None, address
        assert tab.page.locator("main .error").count() == 0, address
        shown = tab.page.evaluate(READ_TEXTS)
        if address.startswith("memory?id="):
            assert any(one.endswith(text) for one in shown), address


FILL = (
    f"const long = {json.dumps(LONG[:10])}.repeat(100_000);"
    + """
const fill = (value) => typeof value === "string" ? value.replaceAll("MARKER", long)
  : Array.isArray(value) ? value.map(fill)
  : value === null || typeof value !== "object" ? value
  : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, fill(one)]));
const json = Response.prototype.json;
Response.prototype.json = async function () { return fill(await json.call(this)); };
"""
)
"""Puts a megabyte into every text of an answer after it arrived: as JSON, some answers would have 60 MB."""


def test_each_page_is_ready_where_every_text_has_a_megabyte(empty: Dashboard, open_tab: Opener) -> None:
    stored, _ = store_everywhere(empty, "MARKER")
    tab = open_tab(empty, "admin")
    tab.page.context.add_init_script(FILL)
    tab.page.goto(f"{empty.url}/ui/#/overview")
    for address in list_pages(stored, "MARKER"):
        tab.page.evaluate("(address) => (location.hash = address)", f"#/{address}")
        tab.settle()
        assert tab.page.locator("main .error").count() == 0, address
        if address.startswith("memory?id="):
            assert any(2000 <= len(one) < 3000 for one in tab.page.evaluate(READ_TEXTS)), address
    tab.page.get_by_role("button", name="shortened: show all 1,000,000 characters").first.click()
    shown = max(tab.page.evaluate(READ_TEXTS), key=len)
    assert shown.replace("[U+202E]", "\u202e") == LONG, (
        "the rest of very many hidden characters has their codes as text"
    )


def test_two_megabytes_are_compared_in_part_and_whole_on_demand(empty: Dashboard, open_tab: Opener) -> None:
    for fact, source in (("A MARKER", "user"), ("B MARKER", "agent")):
        arguments = {"agent": AGENT, "domain": "ops", "fact": fact, "subject": "a", "attribute": "b", "source": source}
        empty.call("add_knowledge", **arguments)
    tab = open_tab(empty)
    tab.page.context.add_init_script(FILL)
    tab.show("inbox")
    sides = tab.page.locator(".halves .card")
    assert max(len(one) for one in tab.page.evaluate(READ_TEXTS)) < 20_000
    sides.first.get_by_role("button", name="shortened: show all 1,000,002 characters").click()
    assert max(len(one) for one in tab.page.evaluate(READ_TEXTS)) >= 1_000_002
    assert sides.first.locator("del").first.inner_text() == "A"


def test_a_megabyte_is_refused_and_the_longest_text_is_cut_and_shown_whole_on_demand(
    empty: Dashboard, open_tab: Opener
) -> None:
    refused = post_raw(empty, "add_knowledge", {"agent": AGENT, "domain": "ops", "fact": LONG})
    assert refused.status_code == 400
    assert "at most 100,000" in refused.json()["detail"]
    fact = post_raw(empty, "add_knowledge", {"agent": AGENT, "domain": "ops", "fact": LONG[:TURN]})
    turns = [{"speaker": "user", "text": LONG[:TURN]}, {"speaker": "assistant", "text": "short"}]
    episode = post_raw(empty, "add_episode", {"agent": AGENT, "session_id": "long", "turns": turns})
    assert (fact.status_code, episode.status_code) == (200, 200)
    tab = open_tab(empty, "admin")
    sizes: dict[str, int] = {}
    tab.page.on("response", lambda one: sizes.update({one.url: int(one.headers.get("content-length", 0))}))
    tab.page.goto(f"{empty.url}/ui/#/overview")
    for address in list_pages([], "word"):
        tab.page.evaluate("(address) => (location.hash = address)", f"#/{address}")
        tab.settle()
    assert {url: size for url, size in sizes.items() if size >= 100_000} == {}
    tab.show(f"sessions?session={episode.json()['id']}", "Session long")
    tab.page.get_by_role("button", name="load the whole text").click()
    show = tab.page.get_by_role("button", name="show all")
    show.click()
    [shown] = [one for one in tab.page.evaluate(READ_TEXTS) if len(one) > 10_000]
    [turn] = [one for one in tab.page.locator("li.turn").all() if "word" in one.inner_text()[:100]]
    whole = empty.call("get", memory_id=str(turn.get_attribute("id")).removeprefix("turn-"))["text"]
    assert shown == whole


def test_a_hostile_text_can_be_edited_and_compared(empty: Dashboard, open_tab: Opener) -> None:
    from playwright.sync_api import expect

    text = f"{TEXTS['image']} {TEXTS['directions']}"
    rule = empty.call("add_rule", agent=AGENT, rule=text, source="user")
    tab = open_tab(empty)
    tab.show(f"rules?id={rule['id']}")
    tab.page.locator(".detail [data-do=edit]").click()
    expect(tab.page.locator("form .warning")).to_contain_text("hidden characters")
    tab.page.locator("form button", has_text="Remove").click()
    tab.page.locator("form button", has_text="Save").click()
    # The heading has no such marks before it is drawn, either: wait for the saved text.
    expect(tab.page.locator(".detail h2")).to_contain_text("photo_gnp.exe")
    expect(tab.page.locator(".detail h2 .odd")).to_have_count(0)
    stored = empty.call("get", memory_id=rule["id"])["rule"]
    assert "\u202e" not in stored
    tab.page.locator(".detail button", has_text="History").click()
    expect(tab.page.locator("dialog del .odd").first).to_be_visible()
    assert tab.page.evaluate("window.__xss") is None
    assert tab.page.locator("dialog img").count() == 0


def test_a_project_with_a_hostile_name_is_shown_as_text(empty: Dashboard, open_tab: Opener) -> None:
    name = "<img src=x onerror=window.__xss=1>"
    headers = {"alma-project": quote(name)}
    answer = empty.post("v1/add_rule", {"agent": AGENT, "rule": "Be careful", "source": "user"}, **headers)
    tab = open_tab(empty)
    if answer.status_code != 200:
        tab.expected.append(str(answer.status_code))
    tab.page.goto(f"{empty.url}/ui/#/rules?project={quote(name)}")
    tab.settle()
    assert tab.page.evaluate("window.__xss") is None
    assert tab.page.locator("img").count() == 0
