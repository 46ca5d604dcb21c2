"""Fits that are interrupted keep the degrees that are done; long ones say how far they are."""

from __future__ import annotations

import numpy as np
import pytest

import vinets.ideals.construct as engine
from vinets import ABM, OAVI, fit_class_ideals
from vinets.core.progress import Lines
from vinets.data.synthetic import latent_like

Z = latent_like(120, 8, 3, seed=4)
MODELS = {
    "ABM": lambda d: ABM(1e-3, max_degree=d),
    "ABM, leading": lambda d: ABM(1e-3, normalization="leading", max_degree=d),
    "ABM, orthogonal": lambda d: ABM(1e-9, max_degree=d),
    "OAVI": lambda d: OAVI(1e-3, max_degree=d),
}


class Interrupting:
    """A progress that is interrupted in a degree, after its first block."""

    def __init__(self, degree):
        self.degree, self.stages = degree, []

    def start(self, stage, total):
        self.stages.append((stage, total))

    def advance(self, count=1, note=""):
        if self.stages[-1][0] == f"degree {self.degree}":
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def not_small(monkeypatch):
    """Small point sets are done before anyone could interrupt; these are to take the long way."""
    monkeypatch.setattr("vinets.ideals.small.MAX_BORDER_TERMS", 0)


def interrupted_in(degree, model, monkeypatch):
    monkeypatch.setattr("vinets.ideals.base.progress_of", lambda *a, **k: Interrupting(degree))
    with pytest.raises(KeyboardInterrupt):
        model.fit(Z)
    return model


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("degree", [2, 3])
def test_what_the_degrees_before_gave_is_kept(name, degree, monkeypatch):
    """The model is that of a fit to the degree before."""
    whole = MODELS[name](degree - 1).fit(Z)
    model = interrupted_in(degree, MODELS[name](4), monkeypatch)
    assert model.report_.interrupted and "interrupted" in str(model.report_)
    assert not whole.report_.interrupted and "interrupted" not in str(whole.report_)
    np.testing.assert_array_equal(model.order_ideal_, whole.order_ideal_)
    np.testing.assert_array_equal(model.leading_terms_, whole.leading_terms_)
    np.testing.assert_allclose(model.transform(Z), whole.transform(Z), atol=1e-9)
    assert [d.degree for d in model.report_.degrees] == list(range(1, degree))


def test_nothing_is_kept_of_a_first_degree(monkeypatch):
    model = interrupted_in(1, MODELS["ABM"](3), monkeypatch)
    assert not hasattr(model, "generators_")


def test_an_interrupt_anywhere_in_a_degree_undoes_that_degree(monkeypatch):
    whole = MODELS["ABM"](2).fit(Z)
    for place in ("block_outcome", "next_border", "DegreeReport"):
        with monkeypatch.context() as patch:
            right, calls = getattr(engine, place), []

            def third(*given, right=right, calls=calls, **more):
                calls.append(given)
                if len(calls) == 3:
                    raise KeyboardInterrupt
                return right(*given, **more)

            patch.setattr(engine, place, third)
            with pytest.raises(KeyboardInterrupt):
                (model := MODELS["ABM"](4)).fit(Z)
        np.testing.assert_array_equal(model.order_ideal_, whole.order_ideal_)
        np.testing.assert_allclose(model.transform(Z), whole.transform(Z), atol=1e-9)


def test_progress_hears_of_all_terms_of_every_degree():
    heard = []

    class Listening:
        def start(self, stage, total):
            heard.append([stage, total, 0, []])

        def advance(self, count=1, note=""):
            heard[-1][2] += count
            heard[-1][3].append(note)

    y = np.repeat([0, 1], 60)
    ideals = fit_class_ideals(Z, y, MODELS["ABM"](2), progress=Listening())
    (stage, total, done, notes) = heard[0]
    assert (stage, total, done) == ("classes", 2, 2) and len(heard) == 1
    border = ideals[0].report_.degrees[1].border
    assert notes[0] == "degree 1 8/8" and f"degree 2 {border}/{border}" in notes


def test_only_long_work_is_announced(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("vinets.core.progress.time.monotonic", lambda: now[0])
    lines = Lines(every=2.0, patience=2.0)
    lines.start("degree 1", 10)
    lines.advance(10)
    now[0] = 1.0
    lines.start("degree 2", 100)
    now[0] = 3.5
    lines.advance(25)
    lines.start("degree 3", 7)
    assert capsys.readouterr().err.splitlines() == ["degree 2 25/100, 8 s left", "degree 3 (7)"]
