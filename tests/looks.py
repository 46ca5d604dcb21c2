"""Opens a page in Chromium as readers do, and lists what is wrong with its looks.

Wide and narrow, light and dark: nothing sticks out sideways, no text is cut off or lies on other
text, no table hides columns, and axe-core (in ``axe/``) finds nothing against WCAG 2 AA, contrast
among it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (1400, 390)
SCHEMES = ("light", "dark")
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
OPTIONS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
AXE = Path(__file__).parent / "axe" / "axe.min.js"

# Shadows at the sides of what scrolls are gradients, behind which axe cannot tell a contrast.
PLAIN = ".scroll { background: none !important; }"
GEOMETRY = """() => {
  const faults = [], wide = document.documentElement.clientWidth;
  const light = (color) => color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
  const contrast = (...colors) => {
    const [dark, bright] = colors.map(light).sort((a, b) => a - b);
    return bright / dark;
  };
  const named = (node) => `${node.tagName.toLowerCase()} "${node.textContent.trim().slice(0, 40)}"`;
  if (document.documentElement.scrollWidth > wide)
    faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
  for (const box of document.querySelectorAll(".scroll"))
    if (box.scrollWidth > box.clientWidth + 1 && box.querySelector("table"))
      if (!box.closest("figure")) // whose data a reader opens to see
        faults.push(`a table hides columns: ${named(box)}`);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const drawn = new Map();
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || node.closest("script, style, noscript, title")) continue;
    const range = document.createRange();
    range.selectNodeContents(texts.currentNode);
    const box = range.getBoundingClientRect();
    if (!box.width || !node.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
      continue;
    let frame = { left: 0, right: wide, top: -1e9, bottom: 1e9 };
    const place = [box.left, box.right, box.top, box.bottom];
    for (let up = node; up; up = up.parentElement) {
      const flow = getComputedStyle(up);
      const picture = up.tagName === "svg";
      if (!picture && flow.overflowX === "auto") break; // which scrolls, and shows that it does
      if (picture || flow.overflowX !== "visible" || flow.overflowY !== "visible") {
        const own = up.getBoundingClientRect();
        const out = [own.left - place[0], place[1] - own.right, own.top - place[2],
          place[3] - own.bottom];
        if (Math.max(...out) > 1.5) faults.push(`cut off: ${named(node)}`);
      }
      if (picture) break;
    }
    if (box.left < -1 || box.right > wide + 1)
      if (!node.closest(".scroll, pre")) faults.push(`beside the screen: ${named(node)}`);
    if (node.closest("svg")) {
      const behind = (one) => getComputedStyle(one).backgroundColor;
      let back = node;
      while (behind(back).startsWith("rgba")) back = back.parentElement; // it can be seen through
      const found = contrast(getComputedStyle(node).fill, behind(back));
      if (found < 4.5) faults.push(`contrast ${found.toFixed(2)}: ${named(node)}`);
    }
    const chart = node.closest("figure[id] svg"); // a chart, which has no text on its shapes
    if (chart) drawn.set(chart, [...(drawn.get(chart) || []), [node, box]]);
  }
  for (const labels of drawn.values())
    labels.forEach(([node, a], index) => labels.slice(index + 1).forEach(([other, b]) => {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 3) faults.push(`on each other: ${named(node)}, ${named(other)}`);
    }));
  return faults;
}"""
RULES = """async (colours) => { // it does not look at text in drawings
  const found = await axe.run({ exclude: ["svg"] }, {
    resultTypes: ["violations", "incomplete"],
    runOnly: colours ? ["color-contrast"] : ["wcag2a", "wcag2aa", "wcag21aa"] });
  // By shapes that are clipped, or by the edge of what scrolls: axe sees neither.
  const covered = (node) =>
    ["bgOverlap", "elmPartiallyObscured"].includes(node.any[0]?.data?.messageKey);
  const told = (rule, kind) => rule.nodes.map((node) =>
    `${kind} ${rule.id}: ${node.target} ${(node.any[0] || node.all[0] || node).message || ""}`);
  return [...found.violations.flatMap((rule) => told(rule, "axe")),
    ...found.incomplete.filter((rule) => rule.id === "color-contrast").flatMap((rule) =>
      told({ ...rule, nodes: rule.nodes.filter((node) => !covered(node)) }, "undecided"))];
}"""


def faults(path: Path, rules: bool = True) -> list[str]:
    """What is wrong with a page, each with the screen on which it is; axe takes the most time."""
    found = []
    with chromium() as browser:
        for scheme in SCHEMES:
            page = browser.new_page(color_scheme=scheme)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                page.goto(path.resolve().as_uri())
                page.evaluate("document.querySelectorAll('details').forEach((d) => d.open = true)")
                page.add_style_tag(content=PLAIN)
                told = page.evaluate(GEOMETRY)
                if rules:
                    page.add_script_tag(path=AXE)
                    # other rules than that of colours are kept on every screen or on none
                    told += page.evaluate(RULES, bool(width != WIDTHS[0] or scheme != SCHEMES[0]))
                found += [f"{width} px, {scheme}: {one}" for one in dict.fromkeys(told)]
            page.close()
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; a test that needs it is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()
