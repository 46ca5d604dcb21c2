"""The page for newcomers says what the experiments on digits found."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from vinets.paper.backbones import BACKBONES
from vinets.paper.page import NEEDED, NEXT, can_show, newcomers_page
from vinets.paper.plan import network_name
from vinets.report import html, read_results

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "demo"


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


def test_the_page_has_a_polynomial_its_means_and_the_claims(results):
    page = unescape(html(newcomers_page(results)))
    found = {one.experiment: one for one in results}
    polynomial = found["fig-vanishing"].text[1].partition(": p = ")[2].removesuffix(".")
    assert polynomial in page
    for row in found["claims"].tables[0].rows:
        assert str(row.values["claim"]).split("(")[0].strip() in page
    assert page.count("<svg") >= 3  # polynomials times classes, before and after training


def test_the_commands_of_the_page_name_the_folder_of_an_uncut_network():
    folder = f"out/demo/uncut/{network_name(BACKBONES['digits'], 0)} "
    assert sum(folder in line for line in NEXT) == 2


def test_every_experiment_is_on_the_page(results):
    page = newcomers_page(results)
    titles = {section.title for section in page.sections}
    shown = ("fig-kept", "fig-truncation", "fig-parameters", "claims")
    assert titles >= {one.title for one in results if one.experiment not in shown}


def test_without_the_main_results_there_is_no_such_page(results):
    assert can_show(results)
    for name in NEEDED:
        assert not can_show([one for one in results if one.experiment != name])


def test_the_polynomials_of_the_page_vanish_on_test_images_as_it_says(results):
    """Held against the network that comes with the package, which was built in the same way."""
    import torch

    from vinets import VINet
    from vinets.data import digits
    from vinets.heads.class_sizes import measure_vanishing

    net, data = VINet.from_pretrained("vinets/digits-cnn-vinet"), digits()

    def measured(part):
        images, labels = next(iter(part.batches(len(part))))
        with torch.no_grad():
            points = net.head.variables(net.latents(images))
        return measure_vanishing(net.head.polynomials, [(points, labels)], psi=0.01)

    # The definition holds on the images that the generators were found on, up to half precision.
    assert measured(data.train).satisfied >= 0.95
    held_out = measured(data.test)
    kept = next(one for one in results if one.experiment == "fig-kept").tables[0]
    said = next(row.values for row in kept.rows if str(row.section).endswith("pool"))
    assert held_out.smallest_own == pytest.approx(said["smallest"] / 100, abs=0.02)
    assert held_out.own_over_other == pytest.approx(said["ratio"], abs=0.05)
