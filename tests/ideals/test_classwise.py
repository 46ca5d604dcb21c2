from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.core.plain import changes, from_plain
from vinets.core.settings import IdealOptions
from vinets.data.synthetic import latent_like_classes
from vinets.heads import LocalOptions, VanishingOptions
from vinets.ideals import classwise
from vinets.ideals.classwise import MIN_GPU_SIZE, choose_device, make_ideal

GPU = torch.device("cuda", 0)


@pytest.fixture(scope="module")
def data():
    Z, y = latent_like_classes(4, m=60, n=10, rank=3)
    keep = np.ones(len(y), dtype=bool)
    keep[5:40] = False  # classes of different sizes
    shuffle = np.random.default_rng(0).permutation(int(keep.sum()))
    return Z[keep][shuffle], y[keep][shuffle]


@pytest.mark.slow
def test_processes_give_what_one_process_gives(data):
    Z, y = data
    model = ABM(0.01, max_degree=2)
    here, there = (fit_class_ideals(Z, y, model, backend="joblib", n_jobs=n) for n in (1, 2))
    for (label, a), (other, b) in zip(here, there, strict=True):
        assert label == other
        np.testing.assert_allclose(a.transform(Z), b.transform(Z), atol=1e-9)


def test_a_worker_takes_one_core(data, monkeypatch):
    Z, y = data
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "somebody")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_class_ideals(Z, y, ABM(0.01, max_degree=1), backend="joblib")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_features_are_the_classes_side_by_side(data):
    Z, y = data
    ideals = fit_class_ideals(torch.from_numpy(Z), torch.from_numpy(y), ABM(0.01, max_degree=2))
    out = ideals.transform(torch.from_numpy(Z))
    assert out.shape == (len(Z), ideals.n_generators)
    assert not hasattr(ABM(0.01), "generators_")
    own = len(ideals[0].generators_)
    assert ideals.feature_classes.tolist() == [k for k, i in ideals for _ in i.generators_.lead]
    assert torch.equal(out[:, :own], ideals[0].transform(torch.from_numpy(Z)))


def test_mistakes_are_named(data):
    Z, y = data
    with pytest.raises(ValueError, match=r"'y' parameter of fit_class_ideals"):
        fit_class_ideals(Z, y[:-1], ABM())
    with pytest.raises(ValueError, match=r"'backend' parameter of fit_class_ideals"):
        fit_class_ideals(Z, y, ABM(), backend="mpi")
    with pytest.raises(KeyError, match="no class 9"):
        fit_class_ideals(Z, y, ABM(max_degree=1))[9]


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, as far as the choice can see."""
    monkeypatch.setattr(classwise, "resolve_device", lambda owner, d: GPU if d == "auto" else d)


def points_of(size):
    return torch.zeros(max(1, round(size / 100)), 10)


def test_the_size_decides(gpu):
    assert choose_device("x", "auto", points_of(MIN_GPU_SIZE)) == GPU
    assert choose_device("x", "auto", points_of(MIN_GPU_SIZE - 100)).type == "cpu"
    assert choose_device("x", torch.device("cpu"), points_of(1e8)).type == "cpu"  # as told


def test_the_choice_is_the_one_that_was_measured_best(gpu):
    """But for one size at which both devices took the same time."""
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "devices.json"
    for row in json.loads(path.read_text())["rows"]:
        chosen = choose_device("x", "auto", torch.zeros(1024, row["variables"])).type
        faster = "cuda" if row["cuda_s"] < row["cpu_s"] else "cpu"
        assert chosen == row["chosen"]
        assert chosen == faster or row["cuda_s"] > 0.9 * row["cpu_s"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPU")
def test_without_a_gpu_auto_is_the_cpu():
    assert choose_device("x", "auto", torch.zeros(1, 10).expand(10**8, 10)).type == "cpu"
    with pytest.raises(ValueError, match="device"):
        choose_device("x", "cuda", points_of(10))


@pytest.mark.parametrize("kind", [ABM, VCA])
def test_what_was_found_elsewhere_comes_back(monkeypatch, kind):
    """Another device is played by another name of the CPU; what counts is where results are."""
    asked = []

    def elsewhere(owner, wanted, points):
        asked.append((wanted, tuple(points.shape)))
        return torch.device("cpu", 0)

    monkeypatch.setattr("vinets.ideals.classwise.choose_device", elsewhere)
    Z, y = np.random.default_rng(0).uniform(-1, 1, (40, 2)), np.repeat([0, 1], 20)
    Z[:, 1] = Z[:, 0] * np.where(y, 1, -1)
    ideals = fit_class_ideals(Z, y, kind(1e-4, max_degree=1), device="auto")
    assert asked == [("auto", (40, 2))] and ideals.n_generators == 2
    fit_class_ideals(Z, y, kind(1e-4, max_degree=1))
    assert len(asked) == 1  # where the points lie, unless asked


def test_an_algorithm_is_made_with_what_was_given():
    assert isinstance(make_ideal(IdealOptions("ABM")), ABM)
    assert make_ideal(IdealOptions("vca")).max_degree is None
    made = make_ideal(
        IdealOptions("oavi", 0.2, oracle="agd", tau=5.0), max_degree=4, random_state=3
    )
    expected = OAVI(0.2, oracle="agd", tau=5.0, max_degree=4, random_state=3)
    assert made.get_params() == expected.get_params()
    assert isinstance(make_ideal(IdealOptions("vca"), max_degree=2), VCA)
    made = make_ideal(IdealOptions("oavi", oracle="cg", oracle_start="vertex", oracle_stop="gap"))
    expected = OAVI(0.1, oracle="cg", start="vertex", stop="gap", max_degree=None)
    assert made.get_params() == expected.get_params()


def test_no_bound_is_written_down_and_read_again():
    finding = IdealOptions("oavi", tau="inf")
    assert make_ideal(finding).tau == math.inf
    assert from_plain(IdealOptions, json.loads(json.dumps(changes(finding)))) == finding
    for wrong in (math.inf, math.nan, -1.0, "none"):
        with pytest.raises(ValueError, match="'tau' parameter of IdealOptions"):
            IdealOptions("oavi", tau=wrong)


def test_what_an_algorithm_does_not_have_is_refused():
    with pytest.raises(ValueError, match="tau is no option of abm"):
        make_ideal(IdealOptions("abm", tau=5.0))
    with pytest.raises(ValueError, match="oracle_start is no option of abm"):
        make_ideal(IdealOptions("abm", oracle_start="vertex"))
    with pytest.raises(ValueError, match="must be one of 'abm', 'oavi', 'vca'"):
        make_ideal(IdealOptions("groebner"))


@pytest.mark.parametrize(("kind", "degrees"), [(VanishingOptions, (5, 5)), (LocalOptions, (1, 2))])
def test_the_degree_that_pays_is_chosen_where_none_is_given(kind, degrees):
    for components, degree in zip((None, 8), degrees, strict=True):
        assert kind(components=components).ideal().max_degree == degree
        assert kind(components=components, max_degree=3).ideal().max_degree == 3
        assert kind(components=components, max_degree=None).ideal().max_degree is None


@pytest.mark.parametrize("kind", [VanishingOptions, LocalOptions])
def test_a_head_refuses_what_its_algorithm_does_not_have(kind):
    assert kind(algorithm="oavi", tau=5.0).ideal().tau == 5.0
    with pytest.raises(ValueError, match="tau is no option of abm"):
        kind(tau=5.0)
    assert kind(algorithm="abm", normalization="leading").ideal().normalization == "leading"
    with pytest.raises(ValueError, match="normalization is no option of vca"):
        kind(algorithm="vca", normalization="unit")
