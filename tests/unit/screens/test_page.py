"""The live page in a real browser: its numbers move, a ladder is the book, and a replay goes as its buttons say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import CHROMIUM, MOST_S, Page, browser

import strand
from strand.feeds.sample import SAMPLE_DATE, sample_path
from strand.http import App, Dashboard, ServerOptions
from strand.http.serving import served
from strand.replaying.pacing import Pacer

pytestmark = [
    pytest.mark.python,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (Debian: chromium)"),
]

#: Seconds for which the long form watches a run; the short form takes a few looks.
WATCH_S = float(os.environ.get("PAGE_WATCH_S", "0"))
#: Elements that reach beyond the window, but for those in a box that scrolls by itself, and texts in small letters.
NOT_LEGIBLE = """
[...document.body.querySelectorAll("*")].filter((each) => {
  const box = each.getBoundingClientRect();
  if (!box.width || each.closest(".scroll") || each.closest(".u-wrap")) return false;
  return box.right > document.documentElement.clientWidth + 1 || box.left < -1
    || (each.innerText && parseFloat(getComputedStyle(each).fontSize) < 11);
}).map((each) => each.outerHTML.slice(0, 200))
"""
#: Controls and pictures without a name for those who do not see them.
WITHOUT_NAME = """
[...document.querySelectorAll("button, input, select, [role=img], section, table")].filter((each) => {
  if (each.matches("section")) return !each.getAttribute("aria-label") && !each.querySelector("h2, h3");
  if (each.matches("table")) return !each.closest("section, figure");
  return !each.innerText?.trim() && !each.labels?.length && !each.getAttribute("aria-label");
}).map((each) => each.outerHTML.slice(0, 200))
"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as found:
        yield found


@contextmanager
def replayed(*words: str) -> Iterator[str]:
    """``strand dashboard`` of the sample, and its address."""
    line = [
        sys.executable,
        "-m",
        "strand",
        "dashboard",
        "--replay",
        str(sample_path()),
        "--date",
        SAMPLE_DATE,
        "--port",
        "0",
    ]
    with subprocess.Popen([*line, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "the page is at" in line)
            yield said.strip().rpartition(" ")[2]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(MOST_S)


def position(page: Page) -> int:
    return int(page.text("position").replace(",", ""))


def after_looks(page: Page, n: int) -> None:
    """Waits until the page has shown so many more looks: the time of the machine moves on in each."""
    seen = "document.getElementById('seen'), {childList: true, characterData: true, subtree: true}"
    page.value(f"window.looks = 0; new MutationObserver(() => looks++).observe({seen})")
    page.wait(f"looks >= {n}")


def test_a_replay_is_stepped_by_exactly_n_ticks_paused_resumed_and_ends(page: Page) -> None:
    page.requests.clear()
    # At this speed the day lasts for six minutes, and does not end before a button is pressed.
    with replayed("--paused", "--speed", "60", "--workers", "1") as url:
        page.go(url, 1280)
        page.wait("state.textContent == 'paused'")
        assert page.text("position") == "0"
        for n, reached in ((50_000, "50,000"), (1, "50,001"), (7, "50,008")):
            page.fill("ticks", str(n))
            page.click("#step button")
            page.wait(f"position.textContent == {reached!r}")
        after_looks(page, 3)
        assert position(page) == 50_008
        assert page.text("state") == "paused"
        cards = page.text("cards")
        assert "50,008" in cards
        assert "a replay has none" in cards

        page.click("#pause")
        page.wait("state.textContent == 'running'")
        before = page.text("throughput"), position(page)
        page.wait(f"parseInt(position.textContent.replaceAll(',', '')) > {before[1] + 100}")
        page.click("#pause")
        page.wait("state.textContent == 'paused'")
        rests = position(page)
        after_looks(page, 3)
        assert position(page) == rests

        page.click("#reset")
        page.wait("position.textContent == '0' && state.textContent == 'paused'")
        page.fill("speed", "0")
        page.click("#pace button")
        page.wait("document.getElementById('speed-now').textContent == 'paused, as fast as it goes'")
        page.click("#pause")
        page.wait("state.textContent.startsWith('The run has ended')")
        assert "200,500" in page.text("cards")
        assert all(each.startswith((url, "data:")) for each in page.requests), page.requests
        assert {each.removeprefix(url).partition("?")[0] for each in page.requests} >= {
            "",
            "page.js",
            "uplot.js",
            "events",
        }
    page.wait("state.textContent.includes('connection is lost')")


def test_nothing_is_written_to_the_console_but_that_the_connection_was_lost(page: Page) -> None:
    assert [each for each in page.errors if "ERR_" not in each and "409" not in each] == []


def test_the_page_is_legible_in_390_pixels_and_in_1280_in_light_and_dark(page: Page) -> None:
    with replayed("--paused", "--workers", "1") as url:
        page.go(url, 390)
        page.fill("ticks", "50000")
        page.wait("!document.getElementById('replay').hidden")
        page.click("#step button")
        page.fill("symbol", "AAAHD")
        page.click("#ask button")
        page.wait("document.getElementById('trades').tBodies[0].rows.length > 5")
        for width, is_dark in product((390, 1280), (False, True)):
            page.resize(width)
            page.dark(is_dark=is_dark)
            after_looks(page, 2)
            assert page.value("document.documentElement.scrollWidth <= innerWidth")
            assert page.value(NOT_LEGIBLE) == []
            assert page.value(WITHOUT_NAME) == []
            ground, ink = (page.value(f"getComputedStyle(document.body).{one}") for one in ("backgroundColor", "color"))
            assert (brightness(ground) < brightness(ink)) == is_dark
            assert abs(brightness(ground) - brightness(ink)) > 150


def brightness(color: str) -> float:
    """Of a colour like ``rgb(20, 23, 27)``."""
    return sum(map(float, color.partition("(")[2].rstrip(")").split(",")[:3])) / 3


def orders(n: int, seed: int) -> strand.ticks.Ticks:
    """New orders of A on both sides, and trades."""
    rng, found = np.random.default_rng(seed), strand.ticks.zeros(n)
    is_bid = rng.random(n) < 0.5
    found["action"], found["side"] = b"A", np.where(is_bid, b"B", b"A")
    found["price"] = np.where(is_bid, 10_000, 10_100) * 10**6 + rng.integers(-30, 30, n) * 10**6
    found["size"], found["order_id"] = rng.integers(1, 500, n), np.arange(n) + seed * n + 1
    return found


def test_the_ladder_of_a_symbol_is_what_call_answers_and_numbers_move(page: Page) -> None:
    with strand.Dispatcher(
        ["A", "B"], "book", workers=1, cores=None, attachable=True, name="books", feed="orders"
    ) as run:
        app = App()
        app.dashboard(strand.attach(os.getpid(), name="books"))
        ended = threading.Event()

        def publish() -> None:
            seed = 0
            while not ended.wait(0.01):
                run.publish(orders(20, seed := seed + 1))

        with served(app, ServerOptions(port=0)) as url:
            page.dark(is_dark=False)
            page.go(f"{url}/dashboard/", 1280)
            page.fill("symbol", "A")
            page.click("#ask button")
            publisher = threading.Thread(target=publish)
            publisher.start()
            try:
                page.wait("document.getElementById('ladder').tBodies[0].rows.length == 20")
                for _ in range(3):
                    page.wait(f"document.getElementById('cards').innerText != {page.text('cards')!r}")
                if WATCH_S:
                    watch_for(page, WATCH_S)
            finally:
                ended.set()
                publisher.join()
            run.drain()
            asks, bids = run.call("A", lambda view: (view.book.asks(10).copy(), view.book.bids(10).copy()))
            after_looks(page, 3)

            def text(level: Any) -> list[str]:
                return [f"{level['orders']:,}", f"{level['size']:,}", f"{level['price'] / 1e9:,.3f}"]

            expected = [["", "", price, size, n] for n, size, price in map(text, asks[::-1])]
            expected += [[n, size, price, "", ""] for n, size, price in map(text, bids)]
            assert page.rows("ladder") == expected
            page.fill("symbol", "none")
            page.click("#ask button")
            page.wait("fault.textContent.includes('is not a symbol')")
        page.value("document.documentElement.scrollTop = 0")


def test_a_browser_brings_the_token_as_a_password_for_the_page_its_events_and_its_buttons(
    page: Page, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-of-this-test")
    pacer, options = Pacer(paused=True), ServerOptions(port=0, token_file=str(file))
    with strand.Dispatcher(2, "count", workers=1, cores=None, attachable=True, name="mine"):
        shown = Dashboard(strand.attach(os.getpid(), name="mine"), pacer=pacer, hosts=("*",))
        with served(shown, options) as url:
            page.go(f"{url.replace('//', '//any:a-token-of-this-test@')}/", 900)
            page.wait("state.textContent == 'paused'")
            page.fill("speed", "7")
            page.click("#pace button")
            page.wait("document.getElementById('speed-now').textContent == 'paused, speed 7'")
    assert pacer.speed == 7


def watch_for(page: Page, seconds: float) -> None:
    """Watches a run for so long: its count rises at each look, and the page's memory does not."""
    used = "performance.memory.usedJSHeapSize"
    counts, first = [0], page.value(used)
    for _ in range(int(seconds)):
        page.value("new Promise((resolve) => setTimeout(resolve, 1000))")
        counts.append(int(page.value("document.querySelector('#cards dd').textContent.replaceAll(',', '')")))
    assert all(np.diff(counts) > 0)
    assert page.value(used) < first + 20e6
