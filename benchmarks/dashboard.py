"""Measure the dashboard over many memories in a real browser: `python -m benchmarks.dashboard [--memories N] [--json]`.

Prints for each page how long it takes from the click until it is complete (median and worst of several), the largest
answer and the number of requests; the last columns repeat this with a tenth of the memories, so that a request that
grows with the store is seen. The load of the machine is printed too: times on a busy machine mean little, ratios more.
Needs playwright; `tools.browser` finds the browser.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.browser import find_browser, find_libraries
from tools.dashboard_sample import AGENT, store_sample, write_config
from tools.screenshots import PAGES, serve_config

from alma import ALMA

_BATCH = 5000
_NOUNS = "server cache window deploy backup token login shop invoice queue worker index".split()
_OPEN = """async (hash) => {
  const began = performance.now();
  location.hash = hash;
  for (;;) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    const heading = document.querySelector("main h1");
    if (heading && heading.textContent !== "Effect" && !document.querySelector("[aria-busy=true]"))
      return performance.now() - began;
  }
}"""


@dataclass(frozen=True)
class PageFigures:
    """What one page took."""

    page: str
    median_ms: float
    worst_ms: float
    largest_answer: int
    requests: int


def fill_store(alma: ALMA, count: int) -> None:
    """Store facts and, one in 156, a rule; then the sample."""
    rows: list[dict[str, Any]] = []
    for number in range(count):
        text = f"The {_NOUNS[number % 12]} number {number} needs a {_NOUNS[number // 12 % 12]}"
        if number % 156 == 0:
            rows.append({"type": "rule", "agent": AGENT, "rule": text, "trigger": "deploying"})
        else:
            rows.append({"type": "domain_knowledge", "agent": AGENT, "domain": "ops", "fact": text})
        if len(rows) == _BATCH:
            alma.add_many(rows)
            rows = []
    if rows:
        alma.add_many(rows)
    store_sample(alma)


def measure_pages(link: str, repeats: int) -> list[PageFigures]:
    """Open each page several times from another page of the dashboard."""
    from playwright.sync_api import expect, sync_playwright

    base = "{0.scheme}://{0.netloc}".format(urlsplit(link))
    figures = []
    with sync_playwright() as playwright:
        path = find_browser()
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], env=find_libraries(path))
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        answers: list[int] = []

        def note(response: Any) -> None:
            if "/v1/" in response.url and "/v1/events" not in response.url:
                answers.append(int(response.headers.get("content-length", 0)))

        page.on("response", note)
        page.goto(link)
        expect(page.locator("h1")).to_have_text("Overview", timeout=60_000)
        page.wait_for_timeout(3000)
        for address in PAGES:
            if address == "effect":
                continue
            times = []
            for _ in range(repeats):
                page.goto(f"{base}/ui/#/effect")
                expect(page.locator("h1")).to_have_text("Effect")
                page.wait_for_timeout(300)
                answers.clear()
                times.append(page.evaluate(_OPEN, f"#/{address}"))
                page.wait_for_timeout(50)
            largest = max(answers, default=0)
            figures.append(PageFigures(address, statistics.median(times), max(times), largest, len(answers)))
        browser.close()
    return figures


def measure_store(count: int, repeats: int) -> list[PageFigures]:
    """Fill a temporary store with memories and measure each page over it."""
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder))
        with ALMA.from_config(config) as alma:
            fill_store(alma, count)
        with serve_config(config) as link:
            return measure_pages(link, repeats)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    small = measure_store(options.memories // 10, options.repeats)
    large = measure_store(options.memories, options.repeats)
    if options.json:
        print(json.dumps({"small": [asdict(one) for one in small], "large": [asdict(one) for one in large]}, indent=2))
        return
    print(f"{options.memories:,} memories; load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'page':52}{'median ms':>10}{'worst':>8}{'bytes':>9}{'requests':>9}   a tenth: ms{'bytes':>9}")
    for one, less in zip(large, small, strict=True):
        print(
            f"{one.page:52}{one.median_ms:10.0f}{one.worst_ms:8.0f}{one.largest_answer:9,}{one.requests:9}"
            f"{less.median_ms:14.0f}{less.largest_answer:9,}"
        )


if __name__ == "__main__":
    main()
