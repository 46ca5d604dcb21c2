"""The page of results in a real browser: what a reader sees when they point, click and type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from looks import chromium

from vinets.report import (
    Axis,
    Column,
    ExperimentResult,
    Figure,
    ReferenceLine,
    Row,
    Series,
    Table,
    html,
    results_page,
)

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
X = (10.0, 30.0, 50.0, 70.0)
CUTS = ("layer4.1", "layer3.1", "layer2.1", "layer1.1")


def results() -> ExperimentResult:
    """Two figures and a table that is too wide for any screen."""
    lines = Figure(
        "accuracy",
        "CIFAR-10, ResNet-18",
        Axis("layers removed, %", format=".0f"),
        Axis("accuracy, %", format=".2f"),
        (
            Series("VI-Net", X, (92.5, 91.25, 88.0, 80.0), CUTS, (0.25, 0.5, 1.0, 2.0)),
            Series("linear head", X, (92.0, 89.5, None, 60.0), CUTS, dashed=True),
            Series("random </script> monomials", X, (90.0, 85.0, 70.0, 40.0), CUTS),
        ),
        levels=(ReferenceLine("uncut network", 93.0),),
    )
    points = Series("VI-Net", (0, 100, 10_000), (1.5, 2.5, 4), ("a", "b", "c"), (0.1, 0.2, 0.3))
    scatter = Figure(
        "dimension", "Dimension", Axis("monomials", True, ","), Axis("d"), (points,), "scatter"
    )
    columns = [Column("model"), *(Column(f"n{i}", f"number {i}", ",") for i in range(30))]
    row = Row({c.name: 10**6 for c in columns} | {"model": "VI-Net"}, {"n1": 10**6 - 1})
    table = Table("wide", "A wide table", tuple(columns), (row,))
    command = ("vinets", "reproduce", "x" * 200)
    return ExperimentResult(
        "fig-truncation",
        "Accuracy",
        tables=(table,),
        figures=(lines, scatter),
        command=command,
        settings={"a": "long " * 60},
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html(results_page([results()])), encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def tab(browser) -> Any:
    return browser.new_page()


@pytest.fixture
def page(tab, address) -> Iterator[Any]:
    """The page on a wide screen; nothing may go wrong in it or be loaded by it."""
    problems: list[str] = []
    watched = {
        "console": lambda message: problems.append(message.text),
        "pageerror": lambda error: problems.append(str(error)),
        "request": lambda request: problems.append(request.url),
    }
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.mouse.move(0, 0)
    for event, note in watched.items():
        tab.on(event, note)
    tab.goto(address)
    tab.wait_for_selector(".mark[tabindex]")
    yield tab
    for event, note in watched.items():
        tab.remove_listener(event, note)
    assert problems == [address]


def figure(page, name: str = "accuracy"):
    return page.locator(f'[id="fig-truncation:{name}"]')


def point_at(page, series: str, index: int):
    """Move the mouse near a mark, and give the tooltip."""
    found = figure(page)
    mark = found.locator(f'.plot .mark[aria-label^="{series},"]').nth(index)
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2 + 2, box["y"] + box["height"] / 2 + 1)
    return found.locator(".tip")


def wait_until_redrawn(page) -> None:
    page.wait_for_function(
        """() => [...document.querySelectorAll(".plot")].every(
          (plot) => plot.firstChild.viewBox.baseVal.width === plot.clientWidth)"""
    )


def fits(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pointing_at_a_mark_shows_its_numbers(page):
    tip = point_at(page, "VI-Net", 1)
    assert tip.inner_text().split("\n") == [
        "VI-Net",
        "layer3.1",
        "layers removed, %",
        "30",
        "accuracy, %",
        "91.25 ± 0.50",
    ]
    assert "89.50" in point_at(page, "linear head", 1).inner_text()
    assert "60.00" in point_at(page, "linear head", 2).inner_text()  # the third has no value
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_marks_stand_where_their_values_are(page):
    """Heights of marks are linear in their values, as the labels of the ticks say."""
    found = figure(page).evaluate(
        """figure => {
          const middle = (node) => { const b = node.getBoundingClientRect();
            return [b.left + b.width / 2, b.top + b.height / 2]; };
          const ticks = [...figure.querySelectorAll(".tick")].map(t =>
            [parseFloat(t.textContent), t.getAttribute("text-anchor"), ...middle(t)]);
          const marks = [...figure.querySelectorAll(".plot .ours .mark")].map(middle);
          return { ticks, marks };
        }"""
    )
    for axis, anchor, values in ((0, "middle", X), (1, "end", (92.5, 91.25, 88.0, 80.0))):
        ticks = [(t[0], t[2 + axis]) for t in found["ticks"] if t[1] == anchor]
        (low, a), (high, b) = ticks[0], ticks[-1]
        for value, mark in zip(values, found["marks"], strict=True):
            expected = a + (value - low) / (high - low) * (b - a)
            assert mark[axis] == pytest.approx(expected, abs=2.5)


def test_a_name_in_the_legend_hides_its_series_and_brings_it_back(page):
    found = figure(page)
    button = found.get_by_role("button", name="VI-Net")
    marks = found.locator('.plot .mark[aria-label^="VI-Net,"]')
    box = marks.nth(3).bounding_box()
    point_at(page, "VI-Net", 3)
    expect(button).to_have_attribute("aria-pressed", "true")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(found.locator(".tip")).to_be_hidden()
    expect(marks).to_have_count(0)
    page.mouse.move(box["x"], box["y"])
    expect(found.locator(".tip")).to_be_visible()
    assert "VI-Net" not in found.locator(".tip").inner_text()
    button.click()
    expect(marks).to_have_count(4)
    assert "80.00 ± 2.00" in point_at(page, "VI-Net", 3).inner_text()


def test_every_series_may_be_hidden_and_levels_too(page):
    found = figure(page)
    buttons = found.get_by_role("button")
    assert buttons.all_inner_texts()[-2:] == ["random </script> monomials", "uncut network (93.00)"]
    expect(found.locator(".plot .level")).to_have_count(1)
    for button in buttons.all():
        button.click()
    expect(found.locator(".plot :is(.mark, .level)")).to_have_count(0)
    assert page.locator(".plot .mark").count() == 2  # those of the other figure


def test_show_data_shows_the_table(page):
    found = figure(page)
    table = found.locator("table")
    expect(table).to_be_hidden()
    found.get_by_text("Show data").click()
    expect(table).to_be_visible()
    rows = [row.locator("th, td").all_inner_texts() for row in table.locator("tr").all()]
    assert rows[2] == ["layer3.1", "30", "91.25 ± 0.50", "89.50", "85.00"]
    assert rows[3] == ["layer2.1", "50", "88.00 ± 1.00", "–", "70.00"]


def test_the_keyboard_reaches_every_mark(page):
    found = figure(page)
    tip = found.locator(".tip")
    found.get_by_role("button").last.focus()
    page.keyboard.press("Tab")
    expect(tip).to_contain_text("92.50 ± 0.25")
    for key, text in (
        ("ArrowRight", "91.25 ± 0.50"),
        ("ArrowDown", "89.50"),
        ("ArrowRight", "60.00"),
        ("ArrowRight", "60.00"),  # the last one
        ("ArrowDown", "40.00"),
        ("Home", "90.00"),
        ("ArrowUp", "92.00"),
        ("End", "60.00"),
        ("ArrowUp", "80.00 ± 2.00"),
    ):
        page.keyboard.press(key)
        expect(tip).to_contain_text(text)
    label = page.evaluate("document.activeElement.getAttribute('aria-label')")
    assert label == "VI-Net, layer1.1, layers removed, % 70, accuracy, % 80.00 ± 2.00"
    page.set_viewport_size({"width": 700, "height": 900})
    wait_until_redrawn(page)  # the focus stays
    expect(found.locator(":focus")).to_have_attribute("aria-label", label)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_a_logarithmic_axis_leaves_out_zero_and_the_table_keeps_it(page):
    found = figure(page, "dimension")
    expect(found.locator(".plot .mark")).to_have_count(2)
    expect(found.locator(".plot .line")).to_have_count(0)
    expect(found.locator(".bars")).to_have_count(1)
    assert "100" in found.locator(".tick").all_text_contents()
    assert "1.5 ± 0.1" in found.locator("table").text_content()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_sticks_out_sideways(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    for details in page.locator("summary").all():
        details.click()
    wait_until_redrawn(page)
    assert fits(page)
    plot = figure(page).locator(".plot")
    for index in range(4):
        tip = point_at(page, "VI-Net", index).bounding_box()
        frame = plot.bounding_box()
        assert frame["x"] - 1 <= tip["x"]
        assert tip["x"] + tip["width"] <= frame["x"] + frame["width"] + 1
        assert fits(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_vi_net_has_the_accent_in_both_schemes(page, scheme):
    page.emulate_media(color_scheme=scheme)
    accent, ours, other = page.evaluate(
        """() => {
          const fill = (node) => getComputedStyle(node).fill;
          const [ours, other] = [".ours .mark", ".series:not(.ours) .mark"].map(
            (query) => fill(document.querySelector(query)));
          const probe = document.querySelector(".ring");
          probe.style.fill = "var(--accent)";
          return [fill(probe), ours, other];
        }"""
    )
    assert ours == accent != other


def test_without_scripts_the_data_stand_in_place_of_the_figures(browser, address):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    expect(figure(page).locator("table")).to_be_visible()
    expect(page.get_by_text(re.compile("Without JavaScript")).first).to_be_visible()
    context.close()


def test_the_contents_lead_to_the_experiments(page):
    page.get_by_role("navigation").get_by_role("link", name="Accuracy").click()
    assert page.url.endswith("#fig-truncation")
    expect(page.locator("#fig-truncation h2")).to_be_in_viewport()
