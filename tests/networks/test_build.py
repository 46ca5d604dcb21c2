from __future__ import annotations

import json
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from vinets import BuildFacts, baselines, build, collect
from vinets.core.plain import as_plain, from_plain
from vinets.core.settings import LatentOptions
from vinets.heads import HEADS, LocalOptions, ProductsOptions, VanishingOptions
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.ideals import classwise
from vinets.ideals.base import ScaleWarning
from vinets.networks.build import options_of, rival_options
from vinets.testing.sources import assert_same

SMALL = {"components": 8, "keep": 4, "monomials": 32, "progress": None}


@pytest.mark.parametrize("kind", ["vanishing", "local"])
def test_the_report_tells_what_was_built(latents, kind):
    net, report = build(latents, head=kind, linear_path=3, seed=3, **SMALL)
    head, layer = net.head, net.head.polynomials
    assert isinstance(head, HEADS[kind])
    assert report.cut == "relu3" == net.record.cut and report.head == kind
    assert report.latent_shape == (64, 16) and report.examples == 10 * (48 + 12)
    assert report.generators_kept == len(layer.bias) == 40
    own = len(layer.monomials.terms) - (64 if kind == "local" else 0)  # channels beside them
    assert report.monomials_kept == own == sum(report.degrees.values()) <= 32
    assert report.coefficients_kept == 40 * own
    assert report.coefficients_found == report.generators_found * report.monomials_found
    assert report.parts == net.folded().parts()
    assert report.parameters == sum(report.parts.values())
    assert report.parts["backbone"] == 28_192 and report.original_parameters == 103_466
    assert {"latents", "projection", "polynomials"} <= report.seconds.keys()
    assert not net.training and head.path is not None
    options = {"components": 8, "keep": 4, "monomials": 32, "linear_path": 3}
    assert net.record.notes == {"head": kind, "options": options, "seed": 3}
    told = json.loads(json.dumps(as_plain(report)))
    assert told["parts"] == report.parts and "pictures" not in told
    assert from_plain(BuildFacts, told) == report
    text = str(report)
    assert f"{report.generators_found:,} found, 40 kept" in text
    assert f"{report.parameters:,} instead of 103,466" in text


@pytest.mark.parametrize("order", ["pca-tanh", "tanh-pca"])
def test_the_projection_is_the_pca_of_the_latents_of_unit_variance_or_their_own(latents, order):
    # components of unit variance that are not squashed leave the cube
    with pytest.warns(ScaleWarning) if order == "tanh-pca" else nullcontext():
        net, report = build(latents, order=order, **SMALL)
        plain = build(latents, order=order, scale="none", **SMALL)[0].head.projection.weight
    flat = latents.store.tensor().flatten(1).double().numpy()
    if order == "tanh-pca":
        spread = flat.std(0)
        flat = np.tanh((flat - flat.mean(0)) / np.where(spread > 1e-6, spread, 1))
    theirs = PCA(8, svd_solver="full").fit(flat)
    assert report.explained_variance == pytest.approx(
        theirs.explained_variance_ratio_.sum(), rel=1e-4
    )
    coordinates = theirs.transform(flat) / np.sqrt(theirs.explained_variance_)
    if order == "pca-tanh":
        coordinates = np.tanh(coordinates)
    ours = report.pictures.points
    signs = np.sign((ours * coordinates).sum(0))
    np.testing.assert_allclose(ours, signs * coordinates, atol=2e-3)
    with torch.no_grad():
        seen = net.head.variables(latents.store.tensor()).numpy()
    np.testing.assert_allclose(seen, ours, atol=1e-5)
    unit, rows = net.head.projection.weight, plain.double()
    torch.testing.assert_close(rows @ rows.mT, torch.eye(8).double(), atol=1e-4, rtol=0)
    cosine = torch.nn.functional.cosine_similarity(plain, unit).abs()
    torch.testing.assert_close(cosine, torch.ones(8), atol=1e-4, rtol=0)
    assert not torch.allclose(plain.norm(dim=1), unit.norm(dim=1), rtol=0.1)


def test_the_local_projection_is_the_pca_of_one_position_an_example(latents):
    net, report = build(latents, head="local", seed=4, **SMALL)
    values = latents.store.tensor()
    at = torch.randint(16, (len(values),), generator=torch.Generator().manual_seed(4))
    h = net.head.rescale(values)[torch.arange(len(values)), :, at].double().numpy()
    expected = PCA(8, svd_solver="full").fit(h).explained_variance_ratio_.sum()
    assert report.explained_variance == pytest.approx(expected, rel=1e-4)
    with torch.no_grad():
        own = torch.tanh(net.head.projection(torch.from_numpy(h).float()))
    np.testing.assert_allclose(report.pictures.points, own, atol=1e-5)


def test_pictures_show_that_generators_vanish_on_their_class_alone(latents):
    report = build(latents, **SMALL)[1]
    pictures = report.pictures
    assert pictures.means.shape == (10, 40)
    np.testing.assert_array_equal(pictures.owners, np.repeat(np.arange(10), 4))
    own = pictures.means[pictures.owners, np.arange(40)]
    others = [np.delete(pictures.means[:, j], k).min() for j, k in enumerate(pictures.owners)]
    assert (own < others).mean() > 0.8
    assert sum(map(len, pictures.scores)) == report.generators_found


def test_polynomials_of_components_are_the_pruned_generators_behind_the_channels(latents):
    net, report = build(latents, head="local", **SMALL | {"monomials": None})
    layer, points = net.head.polynomials.eval(), torch.from_numpy(report.pictures.points).float()
    with torch.no_grad():
        layer.weight[:, :64] = 0  # without the linear forms in the channels
        values = layer(torch.cat([torch.zeros(len(points), 64), points], 1)).double().numpy()
    means = np.stack([values[report.pictures.labels == k].mean(0) for k in range(10)])
    np.testing.assert_allclose(means, report.pictures.means, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("keep", "count"), [(3, lambda found: 3), (0.25, lambda found: -(-found // 4)), (10**6, None)]
)
def test_so_many_generators_are_kept_per_class(latents, keep, count):
    report = build(latents, **SMALL | {"keep": keep, "monomials": None})[1]
    found = [len(scores) for scores in report.pictures.scores]
    kept = np.bincount(report.pictures.owners, minlength=10).tolist()
    assert kept == [n if count is None else min(n, count(n)) for n in found]
    for scores, best in zip(report.pictures.scores, report.pictures.kept, strict=True):
        np.testing.assert_allclose(np.sort(best), np.sort(scores)[len(scores) - len(best) :])


def test_everything_is_kept_in_blocks(latents):
    net, report = build(latents, **SMALL | {"keep": None, "monomials": None})
    assert isinstance(net.head.polynomials, BlockPolynomialLayer)
    assert report.generators_kept == report.generators_found
    assert report.monomials_kept == report.monomials_found
    assert report.coefficients_kept < report.coefficients_found / 2
    matrix = build(latents, **SMALL | {"keep": 1.0, "monomials": None})[0]
    points = torch.from_numpy(report.pictures.points).float()
    with torch.no_grad():
        ours, theirs = (n.head.polynomials(points) for n in (net, matrix))
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("algorithm", "psi", "degree"), [("abm", 0.05, 3), ("oavi", 0.1, 2), ("vca", 0.1, 2)]
)
@pytest.mark.parametrize("kind", ["vanishing", "local"])
def test_any_algorithm_will_do(latents, algorithm, psi, degree, kind):
    options = {"algorithm": algorithm, "psi": psi, "max_degree": degree, "components": 5}
    net, report = build(latents, head=kind, **SMALL | options)
    assert report.generators_kept > 5 and max(report.degrees) <= degree
    assert net(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    assert net.record.notes["options"]["psi" if psi != 0.1 else "algorithm"] in (psi, algorithm)


def test_without_components_the_channels_are_the_variables(latents):
    net, report = build(latents, head="local", psi=0.3, **SMALL | {"components": None})
    assert net.head.projection is None and report.explained_variance is None
    assert net.head.polynomials.monomials.terms.n_variables == 64


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "middle"}, r"no head 'middle'"),
        ({"order": "tanh"}, r"'order' parameter of build"),
        ({"scale": "bound"}, r"'scale' parameter of build.*'unit'"),
        ({"score": "best"}, r"'score' parameter of build.*'separation'"),
        ({"components": 0}, r"'components' parameter of build"),
        ({"monomials": -1}, r"'monomials' parameter of build"),
        ({"keep": 0}, r"'keep' parameter of build"),
        ({"keep": 1.5}, r"'keep' parameter of build"),
        ({"keep": True}, r"'keep' parameter of build"),
        ({"tau": 5.0}, r"tau is no option of abm"),
        ({"psi": 1e-12, "max_degree": 1}, r"ABM found no generators.*raise psi or max_degree"),
    ],
)
def test_bad_input_is_named(latents, options, message):
    with pytest.raises(ValueError, match=message):
        build(latents, **SMALL | options)


@pytest.mark.parametrize(
    ("head", "option", "hint"),
    [
        ("vanishing", "monomial", "Did you mean 'monomials'"),
        ("vanishing", "per_klass", "Did you mean 'per_class'"),
        ("vanishing", "factors", "It is one of products.$"),
        ("products", "order", "It is one of vanishing.$"),
        ("linear", "spatial_rank", "It is one of products, relu-units.$"),
        ("pooled", "flat", "It is one of ridge.$"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest_or_with_its_heads(latents, head, option, hint):
    message = f"^build has no option '{option}' with head='{head}'. {hint}"
    with pytest.raises(TypeError, match=message):
        build(latents, head=head, **{option: 3})


def test_what_is_missing_or_wrong_is_refused_before_any_work(model, train, monkeypatch):
    module = sys.modules["vinets.networks.build"]
    monkeypatch.setattr(module, "collect", lambda *_, **__: pytest.fail("it began"))
    with pytest.raises(ValueError, match="'keep' parameter of build"):
        build(model, train, "relu3", keep=-1)
    with pytest.raises(TypeError, match="no option 'sausage'"):
        build(model, train, "relu3", sausage=1)
    with pytest.raises(ValueError, match="needs train_data and a cut"):
        build(model, train)


@pytest.mark.parametrize(
    ("head", "given", "expected"),
    [
        ("vanishing", {}, LatentOptions(reuse=True)),
        ("local", {}, LatentOptions()),
        ("products", {}, LatentOptions(reuse=True, read="map", per_class=8)),
        ("products", {"start": "ideal"}, LatentOptions(reuse=True, read="map")),
        ("products", {"per_class": 9, "read": "auto"}, LatentOptions(per_class=9, reuse=True)),
        ("simkd", {}, LatentOptions(reuse=True, read="map", per_class=8)),
    ],
)
def test_a_head_is_built_on_the_latents_that_suit_it(head, given, expected):
    assert options_of("build", head, given)[1] == expected


def test_a_baseline_takes_the_options_of_the_head_that_it_is_compared_with(latents):
    like = VanishingOptions(components=8, keep=4, monomials=32)
    net, _ = build(latents, head="components", like=like, progress=None)
    assert net.head.linear.in_features == 8
    other = baselines(latents, options=like)["linear, components"]
    assert torch.equal(net.head.linear.weight, other.head.linear.weight)


def test_the_paper_is_the_default():
    assert options_of("build", "vanishing", {})[0] == VanishingOptions(
        **{"components": 128, "order": "pca-tanh", "scale": "unit", "score": "separation"},
        **{"algorithm": "abm", "normalization": "leading", "psi": 0.1, "max_degree": 5},
        **{"keep": 128, "monomials": 512},
    )


@pytest.mark.parametrize("kind", ["vanishing", "local"])
def test_heads_that_differ_in_pruning_alone_share_their_ideals(model, train, kind, monkeypatch):
    latents = collect(model, train, "relu3", per_class=16, progress=None)
    fits, inner = [], classwise.fit_class_ideals
    monkeypatch.setattr(
        classwise, "fit_class_ideals", lambda *a, **b: fits.append(1) or inner(*a, **b)
    )
    pruned = {"keep": 2}, {"monomials": 9}, {"sparse": True}, {"linear_path": 2}
    for changed in ({}, *pruned, {"train_projection": True}):
        build(latents, head=kind, **SMALL | changed)
    assert len(fits) == 1
    alone = build(model, train, "relu3", head=kind, per_class=16, **SMALL | {"keep": 2})[0]
    shared = build(latents, head=kind, **SMALL | {"keep": 2})[0]
    assert_same(shared.state_dict(), alone.state_dict())
    assert len(fits) == 2  # those of its own latents
    for others in ({"psi": 0.2}, {"components": 7}, {"max_degree": 1}, {"seed": 1}):
        build(latents, head=kind, **SMALL | others)
    assert len(fits) == 6


# --- few examples, or many ---------------------------------------------------------------------


def test_networks_built_from_a_file_and_from_memory_are_equal(model, train):
    one, other = (
        build(model, train, "relu2", **SMALL | {"per_class": 16, "memory_limit": limit})[0]
        for limit in (1 << 30, 1 << 16)
    )
    assert_same(one.state_dict(), other.state_dict())


def test_few_examples_lower_the_number_of_components_and_one_is_enough_for_a_class(model):
    images = torch.randn(21, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0] * 10 + [1] * 10 + [2])
    net, report = build(model, (images, labels), "relu3", **SMALL)
    assert report.examples == 21 and net(images).shape == (21, 3)
    assert (report.pictures.owners == 2).any()
    few = images[:6], torch.arange(6) % 2
    net = build(model, few, "relu3", **SMALL | {"components": 50})[0]
    assert len(net.head.projection.weight) == 5
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        build(model, (images[:1], torch.tensor([0])), "relu3", **SMALL)


# --- baselines --------------------------------------------------------------------------------

OPTIONS = {
    "vanishing": VanishingOptions(components=8, keep=4, monomials=32, linear_path=2),
    "local": LocalOptions(components=8, keep=4, monomials=32, linear_path=2),
    "products": ProductsOptions(parameters=60_000, factors=3),
}


@pytest.fixture(scope="module", params=OPTIONS)
def rivals(latents, request):
    """A kind of head, and the networks that it is compared with."""
    return request.param, baselines(latents, request.param, OPTIONS[request.param], seed=1)


def size_of(head) -> int:
    return sum(head.folded().parts().values())


def test_baselines_stand_behind_the_same_cut(latents, rivals):
    kind, others = rivals
    assert [network.head.kind for network in others.values()] == [*HEADS[kind].rivals]
    images = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for name, network in others.items():
        assert HEADS[network.head.kind].label == name and network.record.cut == "relu3"
        with torch.no_grad():
            expected = latents.reader(latents.backbone(images))
        assert torch.equal(network.latents(images), expected)
        assert network(images).shape == (3, 10)
        ours, theirs = latents.backbone.parameters(), network.backbone.parameters()
        assert all(p.data_ptr() == q.data_ptr() for p, q in zip(ours, theirs, strict=True))


def test_sizes_are_comparable(latents, rivals):
    kind, others = rivals
    head = HEADS[kind].build(latents, OPTIONS[kind])
    numbers, sizes = size_of(head), {name: size_of(n.head) for name, n in others.items()}
    assert sizes["linear, flat"] == 10 * (64 * 16 + 1) and sizes["linear, pooled"] == 650
    if kind == "products":
        assert 58_000 < numbers <= 60_000
        for name in ("local ReLU units", "SimKD", "MLP"):
            assert 0.95 * numbers < sizes[name] <= 60_000, name
    else:
        width = 64 * 16 + 1 + 10  # what one more unit would take
        assert numbers - width < sizes["MLP"] <= numbers
        # generators have a leading term each, and what is drawn has none
        assert sizes["random, same degrees"] == numbers - len(head.polynomials.leading)


def test_one_baseline_is_drawn_as_among_all(model, train, rivals):
    kind, others = rivals
    for network in others.values():
        rival = network.head.kind
        fresh = collect(model, train, "relu3", per_class=48, progress=None)
        alone = HEADS[rival].build(fresh, rival_options(rival, kind, OPTIONS[kind]), seed=1)
        assert_same(network.head.state_dict(), alone.state_dict())


def test_baselines_of_given_size_do_without_the_head_that_they_are_compared_with(
    latents, monkeypatch
):
    monkeypatch.setattr(HEADS["products"], "build", lambda *_: pytest.fail("it was built"))
    others = baselines(latents, "products", OPTIONS["products"])
    assert list(others) == ["linear, flat", "linear, pooled", "MLP", "local ReLU units", "SimKD"]
