"""A head taken apart gives its logits again, and its printed polynomials are its polynomials."""

from __future__ import annotations

import pytest
import torch

from vinets import build
from vinets.data import digits
from vinets.explanations.sums import head_sum, written
from vinets.heads import LinearHead
from vinets.models import digits_cnn

DATA = digits()
KINDS = {
    "products": {"head": "products"},
    "local": {"head": "local"},
    "local, components, path": {"head": "local", "components": 4, "linear_path": 3},
    "global": {"components": 6, "keep": 4, "monomials": 24, "linear_path": 2},
    "global, blocks": {"components": 5, "keep": None, "monomials": None},
}


@pytest.fixture(scope="module", params=KINDS)
def net(request):
    options = KINDS[request.param]
    torch.manual_seed(0)
    made, _ = build(digits_cnn(), DATA.train, "pool", per_class=30, progress=None, **options)
    return made


def test_the_parts_of_a_head_sum_to_its_logits_and_variables_have_a_name_each(net):
    total = head_sum(net.head)
    with torch.no_grad():
        latents = net.latents(DATA.test.example(7))
        z, path = total.variables(latents), total.path(latents).sum(1)
        logits = total.bias + total.values(z).sum(1) @ total.weight.mT + path
        torch.testing.assert_close(logits.float(), net.head(latents), rtol=1e-4, atol=1e-5)
    if getattr(net.head, "path", None) is not None:
        assert path.abs().max() > 1e-3
    assert z.shape[-1] == len(total.names) == len(set(total.names))
    assert total.local == (z.shape[1] > 1)


def test_a_product_is_written_in_standardised_channels():
    torch.manual_seed(0)
    net, _ = build(digits_cnn(), DATA.train, "pool", head="products", progress=None)
    total = head_sum(net.head)
    with torch.no_grad():
        z = total.variables(net.latents(DATA.test.example(50))).flatten(0, 1)
        mean, std = z.mean(0), z.std(0)
        head = net.head.folded().double()
        form = head.forms.weight[3] * std  # the first factor of product 3
        largest = int(form.abs().argmax())
        text = total.write(3, mean, std)
    assert text.startswith(f"({float(form[largest]):.2g} c{largest} ")
    assert text.count("(") == 2 and text.count("28 more") == 2


def test_what_is_left_out_of_a_polynomial_is_counted_and_zeros_are_not():
    row = torch.tensor([3.0, 0.0, -1.0, 0.5])
    names = ["a", "b", "c", "d"]
    assert written(row, 0.0, row, names, most=4) == "3 a - 1 c + 0.5 d"
    # by influence, not by coefficient
    influence = row * torch.tensor([0.1, 1.0, 1.0, 1.0])
    assert written(row, -2.0, influence, names, most=1) == "-1 c - 2 + … 2 more"


def test_a_head_without_polynomials_is_refused():
    with pytest.raises(ValueError, match="kind 'linear' is no sum of polynomials"):
        head_sum(LinearHead(4, 2))
