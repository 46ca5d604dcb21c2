"""Trials count ideals, estimate dimensions, and train every head, on images and on tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets.core.progress import progress_of
from vinets.data import DataSplit
from vinets.heads import SimKDHead
from vinets.heads.vanishing import VanishingOptions, find_components
from vinets.ideals.abm import ABM
from vinets.models import create_model, save_weights
from vinets.networks.build import build
from vinets.runs.compare import head_trials
from vinets.runs.setup import Cut, Setup, SetupFiles
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import Trial

FEW = Trial(network="net", cut="relu3", task="ideals").change(
    components=8, order="pca-tanh", per_class=48, max_degree=3
)


@pytest.fixture
def carried_out(model, train, tmp_path):
    """Carry out a trial and return its result."""
    setups = {"net": Setup("net", model, DataSplit("digits", train, train), torch.device("cpu"))}

    def run(trial):
        run_trials([trial], setups, Store(tmp_path), progress=None)
        return Store(tmp_path).read(trial)

    return run


# components of unit variance that no tanh follows lie outside of [-1, 1]
WIDE = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")


@pytest.mark.parametrize("order", [pytest.param("tanh-pca", marks=WIDE), "pca-tanh"])
def test_what_is_counted_is_what_a_build_finds(model, train, carried_out, order):
    result = carried_out(FEW.change(order=order))
    found = result.found
    options = {"components": 8, "per_class": 48, "order": order, "max_degree": 3}
    _, report = build(model, train, "relu3", progress=None, reuse=False, **options)
    assert found.monomials == report.monomials_found
    assert found.polynomials == report.generators_found
    assert found.explained_variance == report.explained_variance
    assert result.removed == 0.25 and found.features == np.prod(report.latent_shape)


def test_classes_are_counted_one_by_one_and_shared_terms_once(latents, carried_out):
    found = carried_out(FEW).found
    made = find_components(latents, VanishingOptions(components=8))
    points, labels = made.points[latents.fit], made.labels[latents.fit]
    everything = set()
    for k in range(10):
        fitted = ABM(psi=0.1, max_degree=3, normalization="leading").fit(
            points[labels == k].numpy()
        )
        used = (fitted.generators_.tail != 0).any(0).numpy()
        rows = [*fitted.order_ideal_[used].tolist(), *fitted.leading_terms_.tolist()]
        terms = {tuple(row) for row in rows if any(row)}
        everything |= terms
        assert found.by_class[str(k)] == len(terms)
    assert found.monomials == len(everything) < sum(found.by_class.values())
    left = list(found.monomials_left.values())  # after pruning
    assert left == sorted(left, reverse=True) and left[0] == found.monomials > left[-1]


def test_dimensions_are_those_of_the_latents_themselves(latents, carried_out):
    pytest.importorskip("skdim")
    found = carried_out(replace(FEW, task="dimension")).estimated
    neighbours = found.neighbours
    flat = latents.store.tensor().flatten(1).double().numpy()[latents.fit.numpy()]
    labels = latents.store.labels.numpy()[latents.fit.numpy()]
    expected = []
    for k in range(10):
        mine = flat[labels == k]
        apart = np.linalg.norm(mine[:, None] - mine[None], axis=2)
        apart = np.sort(apart)[:, 1 : neighbours + 1]
        inverse = np.log(apart[:, -1:] / apart[:, :-1]).mean(1)  # Levina and Bickel
        expected.append(1 / inverse.mean())  # MacKay and Ghahramani
    assert np.allclose(list(found.per_class.values()), expected, rtol=1e-4)
    assert np.isclose(found.mean, np.mean(expected), rtol=1e-4)


BUDGET = 5_000
FAST = {"checkpoints": False, "read": "map", "per_class": 4, "epochs": 1, "batch_size": 8}
START = Trial.of("products", network="text", cut="blocks.0", parameters=BUDGET, **FAST)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for part, word in (("train", "the"), ("test", "a")):
        lines = (f"pets\t{word} cat {k}\nfood\t{word} bread {k}\n" for k in range(12))
        (folder / f"{part}.tsv").write_text("".join(lines))
    torch.manual_seed(0)
    save_weights(create_model("text_transformer", 2), folder / "w.safetensors")
    return SetupFiles("text_transformer", str(folder / "w.safetensors"), f"text:{folder}")


def test_every_head_is_tuned_jointly_on_tokens_as_positions(text, tmp_path):
    trials = [*head_trials(START, baselines=True).values()]
    store = Store(tmp_path)
    run_trials(trials, {"text": text}, store, progress=None)
    for trial in trials:
        result = store.read(trial)
        assert result.shape == (64, 48)  # channels at words
        if trial.head in ("simkd", "relu-units", "products"):
            assert 0.8 * BUDGET < result.trained.parameters_head <= BUDGET


def test_a_projector_behind_a_layer_norm_may_be_negative(text):
    setup = text.open("text", torch.device("cpu"))
    trial = head_trials(START, baselines=True)["SimKD"]
    network, _ = Cut(setup, START, progress_of(None)).network(trial)
    assert isinstance(network.head, SimKDHead) and network.head.signed
