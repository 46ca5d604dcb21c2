import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.data.synthetic import latent_like_classes
from vinets.heads import VanishingOptions, vanishing
from vinets.heads.vanishing import Variables, make_layer, score_generators
from vinets.ideals.pruning import prune, score
from vinets.latent.rescale import Rescale


def test_an_unknown_order_is_refused(heads):
    head = heads["vanishing"]()
    config = head.config() | {"arguments": {"order": "pca"}}
    with pytest.raises(ValueError, match=r"'order' parameter of VanishingHead.*'pca'"):
        type(head).from_config(config, head.state_dict())


# --- generators -------------------------------------------------------------------------------

POINTS, LABELS = latent_like_classes(3, m=80, n=4, rank=2, seed=2)
Z, Y = torch.from_numpy(POINTS), torch.from_numpy(LABELS)
FIT, CHECK = slice(None, None, 2), slice(1, None, 2)
IDEALS = [ABM(0.02, max_degree=3), OAVI(0.02, max_degree=2), VCA(0.05, max_degree=2)]


def made(ideal, options: VanishingOptions, fit=slice(None), check=slice(None)):
    """The layer of an ideal's generators, fitted and scored on some of the points."""
    rescale = Rescale(torch.zeros(4), torch.ones(4))
    variables = Variables(rescale, None, Z, Y, None, 0.0)
    masks = [torch.zeros(len(Z), dtype=torch.bool) for _ in range(2)]
    masks[0][fit] = masks[1][check] = True
    generators = score_generators(variables, *masks, ideal, options.score)
    return make_layer(generators, torch.cat([Z[fit], Z[check]]), options)


@pytest.mark.parametrize(
    ("share", "found", "kept"),
    [(0.5, 7, 4), (0.07, 100, 7), (0.1, 10, 1), (0.29, 100, 29), (1.0, 5, 5), (1e-6, 9, 1)],
)
def test_a_share_is_rounded_up_and_not_by_rounding_errors(share, found, kept):
    x = np.linspace(-1, 1, found + 1)[1:]  # as many linear generators as wanted
    lines = np.outer(np.r_[x, -x], np.ones(found + 1))
    labels = np.repeat([0, 1], found)
    ideals = fit_class_ideals(lines, labels, ABM(1e-6, max_degree=1))
    assert len(ideals[0].generators_) == found
    scores = score(ideals, torch.from_numpy(lines), torch.from_numpy(labels))
    assert len(prune(ideals, scores, share)) == 2 * kept


@pytest.mark.parametrize("ideal", IDEALS)
def test_the_layer_holds_the_pruned_generators(ideal):
    options = VanishingOptions(keep=3, monomials=None)
    layer, pruned, _ = made(ideal, options, FIT, CHECK)
    ours = layer(Z.float()).double()
    theirs = torch.cat([p.evaluate(Z) for p in pruned.polynomials], 1).abs()
    factor = (ours * theirs).sum(0) / theirs.square().sum(0)
    assert (factor > 0).all()
    torch.testing.assert_close(ours, factor * theirs, atol=1e-4, rtol=1e-3)
    assert layer.owners.bincount().tolist() == [len(p.lead) for p in pruned.polynomials]


def test_capped_monomials_are_those_of_the_largest_influence():
    ideal = ABM(0.02, max_degree=3)
    # rows of the layer are scaled to unit norm, so undo that by the generators themselves
    everything, pruned, _ = made(ideal, VanishingOptions(keep=3, monomials=None))
    capped, _, _ = made(ideal, VanishingOptions(keep=3, monomials=4))
    names = everything.monomials.terms.names()
    influence = dict.fromkeys(names, 0.0)
    values = dict(zip(names, everything.monomials(Z).T, strict=True))
    for polynomials in pruned.polynomials:
        for row, lead, tail in zip(
            polynomials.leading.names(), polynomials.lead, polynomials.tail, strict=True
        ):
            influence[row] += float(lead.abs() * values[row].std(correction=0))
            for name, c in zip(polynomials.terms.names(), tail, strict=True):
                if name != "1" and c != 0:
                    influence[name] += float(c.abs() * values[name].std(correction=0))
    best = sorted(names, key=lambda name: -influence[name])[:4]
    assert set(capped.monomials.terms.names()) == set(best)


def test_a_head_has_room_for_so_many_polynomials(monkeypatch):
    ideal, everything = ABM(0.02, max_degree=3), VanishingOptions(keep=None, monomials=None)
    assert not made(ideal, everything)[2]
    monkeypatch.setattr(vanishing, "MAX_POLYNOMIALS", 9)
    layer, few, capped = made(ideal, everything)
    assert capped and len(layer.bias) == 9
    _, best, capped = made(ideal, VanishingOptions(keep=3, monomials=None))
    assert not capped  # a number is what was asked for
    assert [list(s) for s in few.scores] == [list(s) for s in best.scores]
