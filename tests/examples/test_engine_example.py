from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    """The folder that a small run of the example leaves behind."""
    out = tmp_path_factory.mktemp("demo") / "new" / "folder"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
        import engine

        engine.main(["--quick", "--seed", "3", "--out", str(out)])
    return out


@pytest.fixture(scope="module")
def results(tour):
    return json.loads((tour / "results.json").read_text(encoding="utf-8"))


def test_exact_points_give_their_equations(results):
    fits = results["sections"]["exact"]["fits"]
    assert fits["circle"]["polynomials"] == ["x0^2 + x1^2 - 0.81"]
    assert fits["figure eight"]["polynomials"] == ["x0^4 - 0.81*x0^2 + 0.81*x1^2"]
    assert fits["sphere"]["polynomials"] == ["x0^2 + x1^2 + x2^2 - 0.81"]
    assert all(max(fit["mean_squares_on_new_points"]) < 1e-28 for fit in fits.values())


@pytest.mark.parametrize("name", ["circle", "sphere", "circle_with_centre"])
def test_generators_stay_below_the_tolerance_and_hold_on_new_points(results, name):
    for fit in results["sections"][name]["fits"].values():
        assert len(fit["polynomials"]) == len(fit["degrees"]) >= 1
        assert all(value <= fit["psi"] for value in fit["mean_squares"])
        assert all(value <= 2 * fit["psi"] for value in fit["mean_squares_on_new_points"])


def test_digits_are_told_apart_and_every_baseline_is_listed(results):
    digits = results["sections"]["digits"]
    assert {name.split(" + ")[0] for name in digits["models"]} == {"ABM", "OAVI", "VCA", "pixels"}
    for name, model in digits["models"].items():
        assert model["accuracy"] > 0.9
        assert math.isclose(model["accuracy"], 1 - model["errors"] / digits["test"])
        if not name.startswith("pixels"):
            assert all(row[k] == min(row) for k, row in enumerate(model["means"]))


def test_the_page_loads_nothing_and_shows_every_section_and_picture(tour, results):
    page = (tour / "report.html").read_text(encoding="utf-8")
    loaded = re.findall(r"""(?:src|href|srcset|data|poster)\s*=\s*["']([^"']*)""", page)
    assert loaded and all(target.startswith("data:image/png;base64,") for target in loaded)
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", page)
    assert page.count("<section>") == len(results["sections"])
    assert page.count("<img ") == 9
    assert not re.search(r"&#?<|&amp;#", page)  # no entity torn apart
    assert (tour / "zero_sets.png").read_bytes().startswith(b"\x89PNG")
    assert results["seed"] == 3 and results["quick"] is True
    assert {"python", "vinets", "torch", "numpy", "sklearn"} <= results["versions"].keys()
