from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn import decomposition

from vinets.latent.pca import PCA, Projection, fit_pca

METHODS = ["exact", "randomized", "streaming"]


def decaying(m: int, width: int, decay: float, seed: int = 0, mean: float = 5.0) -> torch.Tensor:
    """Rows with singular values that fall by the factor ``decay``, around a mean."""
    random, r = np.random.default_rng(seed), min(m, width)
    left, right = (np.linalg.qr(random.normal(size=(side, r)))[0] for side in (m, width))
    rows = (left * decay ** np.arange(r)) @ right.T * m
    return torch.tensor(rows + mean * random.normal(size=width))


def reference(values: torch.Tensor, n: int) -> decomposition.PCA:
    return decomposition.PCA(n, svd_solver="full").fit(values.numpy())


def in_chunks(values: torch.Tensor, size: int):
    return lambda: values.split(size)


def assert_same(pca: PCA, other, tolerance: float) -> None:
    """Equal up to the signs, which scikit-learn fixes by another rule."""
    np.testing.assert_allclose(pca.mean, other.mean_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(pca.variances, other.explained_variance_, rtol=tolerance)
    np.testing.assert_allclose(pca.explained, other.explained_variance_ratio_, rtol=tolerance)
    cosines = np.abs((pca.components.numpy() * other.components_).sum(1))
    np.testing.assert_allclose(cosines, 1, rtol=tolerance)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("m", "width"), [(200, 30), (40, 120), (60, 60)])
@pytest.mark.parametrize("size", [13, 1000])
def test_all_methods_agree_with_scikit_learn(method, m, width, size):
    values = decaying(m, width, 0.7)
    pca = fit_pca(in_chunks(values, size), 5, method=method)
    assert_same(pca, reference(values, 5), 1e-6)
    np.testing.assert_allclose(pca.components @ pca.components.T, np.eye(5), atol=1e-10)


@pytest.mark.parametrize(("m", "width"), [(200, 30), (30, 200)])
def test_the_exact_method_needs_no_decay(m, width):
    values = torch.tensor(np.random.default_rng(1).normal(size=(m, width)))
    assert_same(fit_pca(in_chunks(values, 17), 29, method="exact"), reference(values, 29), 1e-9)


def test_streaming_without_oversampling_is_incremental_pca():
    values = torch.tensor(np.random.default_rng(2).normal(size=(120, 25))) + 3
    pca = fit_pca(in_chunks(values, 20), 6, method="streaming", oversample=0)
    other = decomposition.IncrementalPCA(6, batch_size=20).fit(values.numpy())
    assert_same(pca, other, 1e-9)
    exact = reference(values, 6)
    gap = np.abs(other.explained_variance_ - exact.explained_variance_).max()
    assert gap > 1e-3  # so that the agreement above says something


def test_randomized_is_scikit_learns_accuracy_on_a_slow_decay():
    values = decaying(400, 300, 0.99, mean=0.0)
    best = reference(values, 20).explained_variance_
    ours = fit_pca(in_chunks(values, 90), 20, method="randomized", seed=3)
    theirs = decomposition.PCA(
        20, svd_solver="randomized", iterated_power=4, n_oversamples=16, random_state=3
    ).fit(values.numpy())
    lost = 1 - ours.variances.numpy() / best
    assert (lost > -1e-9).all() and lost.max() < 2 * (1 - theirs.explained_variance_ / best).max()
    assert lost.max() > 1e-9  # not the exact method in disguise


def test_small_variances_survive_beside_a_large_mean_in_float32():
    values = decaying(300, 50, 0.3, mean=0.0).float() + 100
    expected = reference(values.double(), 4)
    for method in METHODS:
        pca = fit_pca(in_chunks(values, 64), 4, method=method)
        assert pca.components.dtype == torch.float32
        assert_same(pca, expected, 1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_signs_and_seeds_leave_nothing_to_chance(method):
    values = decaying(90, 40, 0.8)
    first, again = (fit_pca(in_chunks(values, 32), 4, method=method, seed=7) for _ in range(2))
    assert torch.equal(first.components, again.components)
    mirrored = fit_pca(in_chunks(-values, 32), 4, method=method, seed=7)
    torch.testing.assert_close(mirrored.components, first.components)
    peaks = first.components.gather(1, first.components.abs().argmax(1, keepdim=True))
    assert (peaks > 0).all()


@pytest.mark.parametrize(
    ("shape", "method", "expected"),
    [
        *[((2049, 2049), "auto", 3), ((3000, 20), "auto", 2), ((20, 3000), "auto", 2)],
        *[((50, 20), "exact", 2), ((50, 20), "randomized", 3), ((50, 20), "streaming", 1)],
    ],
)
def test_auto_is_randomized_if_both_sides_are_large_as_passes_tell(shape, method, expected):
    values, passes = torch.randn(*shape), []
    chunks = lambda: passes.append(1) or values.split(512)  # noqa: E731
    fit_pca(chunks, 2, method=method, n_iter=1, oversample=0)
    assert len(passes) == expected


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_components_than_the_rank_are_refused(method, dtype):
    random = np.random.default_rng(0)
    values = torch.tensor(random.normal(size=(60, 5)) @ random.normal(size=(5, 40))).to(dtype)
    assert len(fit_pca(in_chunks(values, 25), 5, method=method).variances) == 5
    with pytest.raises(ValueError, match=r"'n_components'.*at most 5, the rank.*Got 6"):
        fit_pca(in_chunks(values, 25), 6, method=method)
    with pytest.raises(ValueError, match=r"at most 3, the rank"):
        fit_pca(in_chunks(values[:4], 25), 4, method=method)
    with pytest.raises(ValueError, match=r"at most 0, the rank"):
        fit_pca(in_chunks(values[:1].expand(9, -1), 25), 1, method=method)


@pytest.mark.parametrize(
    ("chunks", "options", "message"),
    [
        (lambda: [], {}, r"must yield latents. Got none"),
        (lambda: [], {"method": "streaming"}, r"must yield latents. Got none"),
        (lambda: [torch.zeros(3, 2, 2)], {}, r"one shape \(b, D\). Got \(3, 2, 2\)"),
        (lambda: [(torch.zeros(3, 2), 1)], {}, r"Got tuple instead. For a store pass"),
        (lambda: [torch.zeros(3, 2), torch.zeros(3, 4)], {}, r"Got \(3, 4\)"),
        (lambda: [torch.full((3, 2), float("nan"))], {}, r"NaN or infinite"),
        (lambda: [torch.full((3, 2), torch.inf)], {"method": "streaming"}, r"NaN or infinite"),
        (torch.zeros(3, 2), {}, r"'chunks'.*starts a new pass.*Got 'Tensor'"),
        (lambda: [torch.eye(3)], {"method": "svd"}, r"'method'.*Got 'svd'"),
        (lambda: [torch.eye(3)], {"n_components": 0}, r"'n_components'.*a positive integer. Got 0"),
        (lambda: [torch.eye(3)], {"n_components": True}, r"'n_components'.*Got True"),
        (lambda: [torch.eye(3)], {"oversample": -1}, r"'oversample'.*at least 0. Got -1"),
    ],
)
def test_bad_input_is_named(chunks, options, message):
    with pytest.raises(ValueError, match=message):
        fit_pca(chunks, **{"n_components": 1, **options})


@pytest.mark.parametrize("method", ["exact", "randomized"])
@pytest.mark.parametrize("width", [4, 40])
def test_a_second_pass_that_differs_is_noticed(method, width):
    values = iter(decaying(30, width, 0.8).split(10))
    with pytest.raises(ValueError, match=r"same latents in every pass. Got 30 rows at first and 0"):
        fit_pca(lambda: values, 2, method=method)


def test_projections_are_scaled_coordinates():
    values = decaying(500, 20, 0.6, seed=4)
    pca = fit_pca(in_chunks(values, 100), 6)
    plain = Projection.from_pca(pca)(values)
    torch.testing.assert_close(plain, pca.transform(values))
    unit = Projection.from_pca(pca, "unit")(values)
    torch.testing.assert_close(torch.cov(unit.T), torch.eye(6, dtype=torch.float64))


def test_projections_train_only_if_asked_and_load_like_linear_layers():
    pca = fit_pca(in_chunks(decaying(30, 8, 0.7), 10), 3)
    assert not any(p.requires_grad for p in Projection.from_pca(pca).parameters())
    assert all(p.requires_grad for p in Projection.from_pca(pca, trainable=True).parameters())
    linear, unit = torch.nn.Linear(8, 3, dtype=torch.float64), Projection.from_pca(pca, "unit")
    linear.load_state_dict(unit.state_dict())
    z = torch.ones(2, 8, dtype=torch.float64)
    torch.testing.assert_close(linear(z), unit(z))
    with pytest.raises(ValueError, match=r"'scale'.*'unit'.*Got 'max'"):
        Projection.from_pca(pca, "max")
    with pytest.raises(ValueError, match=r"Projection must be \(n, D\) beside"):
        Projection(torch.zeros(3, 8), torch.zeros(8))


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


@pytest.mark.slow
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="reads memory there")
def test_a_flattened_map_of_32768_values_takes_no_matrix_of_all_pairs():
    factors = torch.randn(1024, 8, generator=torch.Generator().manual_seed(0))
    loadings = torch.randn(8, 32768, generator=torch.Generator().manual_seed(1))
    values = factors @ loadings + torch.rand(1, 32768)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is now what is used
    before = peak()
    pca = fit_pca(lambda: values.split(256), 8, n_iter=2, oversample=8)
    assert pca.components.shape == (8, 32768)
    assert abs(float(pca.explained.sum()) - 1) < 1e-6
    assert peak() - before < 1e9  # the matrix would take four in single precision
