"""The same fits on a GPU, where there is one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.data.synthetic import circle, latent_like, latent_like_classes

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

MODELS = [
    ABM(0.01, max_degree=3),
    ABM(0.01, normalization="leading", max_degree=3),
    ABM(1e-9, max_degree=2),
    ABM(0.0, normalization="leading", max_degree=2),
    ABM(0.01, max_degree=3, border="full", variable_order="pearson"),
    OAVI(0.01, oracle="exact", max_degree=3),
    OAVI(0.01, oracle="agd", max_degree=3, tau=3.0),
    VCA(0.01, max_degree=2),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_gpu_and_cpu_agree(model):
    X = circle(60, noise=0.0) if model.psi < 1e-6 else latent_like(120, 12, 4)
    here = model.fit(X)
    values, report = here.transform(X), here.report_
    order = None if isinstance(model, VCA) else here.order_ideal_.tolist()
    there = model.fit(torch.from_numpy(X).cuda())
    assert there.report_.device.startswith("cuda") and there.report_.path == report.path
    on_device = there.transform(torch.from_numpy(X).cuda())
    assert on_device.is_cuda
    # where the ball binds, agd stops at a dual gap of 1e-7: equal values, coefficients within that
    atol = 1e-3 if getattr(model, "oracle", "") == "agd" else 1e-7
    np.testing.assert_allclose(values, on_device.cpu().numpy(), atol=atol)
    if order is not None:
        assert order == there.order_ideal_.tolist()


@pytest.mark.parametrize("oracle", ["cg", "pcg", "bpcg"])
def test_sparse_oracles_keep_their_rule_on_a_gpu(oracle):
    X = torch.from_numpy(latent_like(120, 12, 4)).cuda()
    model = OAVI(0.01, oracle=oracle, max_degree=3).fit(X)
    assert float(model.transform(X).square().mean(0).max()) <= 0.01
    assert model.generators_.sparsity > 0.3


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
def test_low_precision_runs_on_a_gpu(precision):
    X = torch.from_numpy(circle(200)).cuda()
    model = ABM(0.05, precision=precision).fit(X)
    assert float(model.transform(X).square().mean(0).max()) <= 0.05 * 1.05


def test_classes_in_one_batch_equal_single_fits():
    Z, y = latent_like_classes(5, m=80, n=10, rank=4)
    batch = fit_class_ideals(torch.from_numpy(Z).cuda(), y, ABM(0.01, max_degree=3))
    for label, ideal in batch:
        alone = ABM(0.01, max_degree=3).fit(Z[y == label])
        assert alone.order_ideal_.tolist() == ideal.order_ideal_.tolist()
        np.testing.assert_allclose(alone.generators_.tail, ideal.generators_.tail.cpu(), atol=1e-7)
