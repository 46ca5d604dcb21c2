"""Early exit: whoever is sure leaves early, the others get the uncut network's answer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets import build, fine_tune, train_classifier
from vinets.data import digits
from vinets.files import write_json
from vinets.latent import remainder, truncate
from vinets.models import digits_cnn, resnet18
from vinets.nn import Cascade
from vinets.nn.cascade import largest_softmax

DATA = digits()
X = DATA.test.example(64)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return digits_cnn().eval()


@pytest.fixture(scope="module")
def early(model):
    net, _ = build(model, DATA.train, "pool", placement="products", per_class=8, progress=None)
    fine_tune(net, DATA.train, epochs=1, progress=None)
    return net.folded()


@pytest.mark.parametrize("cut", ["layer1", "layer3.0", "layer4.1"])
def test_what_is_before_and_behind_a_cut_is_the_network(cut):
    net, x = resnet18(10).eval(), torch.randn(3, 3, 32, 32)
    late = remainder(net, cut)
    with torch.no_grad():
        torch.testing.assert_close(late(truncate(net, cut)(x)), net(x))
    assert set(late.state_dict()) < set(net.state_dict())


def test_a_way_around_the_cut_is_refused():
    with pytest.raises(ValueError, match="goes around"):
        remainder(resnet18(10), "layer3.0.bn2")


@pytest.fixture(scope="module")
def half(early):
    """A threshold that half of the images reach."""
    with torch.no_grad():
        return float(early(X).softmax(1).amax(1).median())


@pytest.mark.parametrize("kind", ["all", "half", "none"])
def test_every_image_has_the_answer_of_the_network_that_it_left(model, early, half, kind):
    threshold = {"all": 0.0, "half": half, "none": 2.0}[kind]
    cascade = Cascade.of(early, model, threshold=threshold)
    assert cascade.shared
    with torch.no_grad():
        logits, sure = cascade.answers(X)
        first, second = early(X), model(X)
    assert torch.equal(sure, first.softmax(1).amax(1) >= threshold)
    assert bool(sure.all()) == (kind == "all") and bool(sure.any()) == (kind != "none")
    torch.testing.assert_close(logits, torch.where(sure[:, None], first, second))


def test_late_images_alone_cost_the_rest_of_the_network(model, early, half):
    cascade = Cascade.of(early, model, threshold=half)
    sizes = []
    cascade.late.register_forward_pre_hook(lambda _, args: sizes.append(len(args[0])))
    with torch.no_grad():
        _, sure = cascade.answers(X)
    assert sizes == [int((~sure).sum())] and 0 < sizes[0] < len(X)


def test_a_tuned_backbone_shares_nothing(model, early):
    net, _ = build(model, DATA.train, "pool", placement="products", per_class=8, progress=None)
    net.thaw()
    with torch.no_grad():
        next(net.backbone.parameters()).add_(0.1)
    cascade = Cascade.of(net, model, threshold=2.0)
    assert not cascade.shared
    with torch.no_grad():
        torch.testing.assert_close(cascade(X), model(X))


def test_any_function_may_be_the_gate(model, early):
    def by_size(latents, logits):
        return latents.flatten(1).norm(dim=1)

    sizes = by_size(early.latents(X), None)
    cascade = Cascade.of(early, model, threshold=float(sizes.median()), gate=by_size)
    with torch.no_grad():
        _, sure = cascade.answers(X)
    assert torch.equal(sure, sizes >= sizes.median())
    with pytest.raises(ValueError, match="cannot be saved"):
        cascade.save_pretrained("nowhere")
    with pytest.raises(ValueError, match="There is no gate 'x'"):
        Cascade.of(early, model, gate="x")


@pytest.mark.parametrize("loss", [0.0, 0.05, 1.0])
def test_calibration_lets_as_many_leave_as_the_loss_allows(early, loss):
    torch.manual_seed(1)
    model = digits_cnn()
    train_classifier(model, DATA.train, epochs=2, progress=None)
    cascade = Cascade.of(early, model)
    found = cascade.calibrate(DATA.test, loss)
    assert cascade.threshold == found.threshold
    with torch.no_grad():
        inputs, labels = next(DATA.test.batches(1000))
        logits, sure = cascade.answers(inputs)
        accuracy = float((logits.argmax(1) == labels).double().mean())
        confidence = largest_softmax(inputs, early(inputs))
    assert accuracy == pytest.approx(found.accuracy, abs=0.005)
    assert found.accuracy >= found.late_accuracy - loss - 1e-9
    assert float(sure.double().mean()) == pytest.approx(found.early, abs=0.005)
    if loss == 1.0:
        assert found.early == 1
    # any lower threshold loses more than was allowed
    for lower in confidence[confidence < found.threshold].tolist():
        cascade.threshold = lower
        with torch.no_grad():
            worse = float((cascade(inputs).argmax(1) == labels).double().mean())
        assert worse < found.late_accuracy - loss + 0.005


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("shared", [True, False])
def test_a_cascade_is_saved_and_read_again(model, early, half, tmp_path, shared, infinite):
    threshold = float("inf") if infinite else half
    cascade = Cascade.of(early, model, threshold=threshold)
    if not shared:
        cascade = Cascade(early, model, shared=False, threshold=threshold).eval()
    cascade.save_pretrained(tmp_path)
    again = Cascade.from_pretrained(tmp_path)
    with torch.no_grad():
        for mine, its in zip(cascade.answers(X), again.answers(X), strict=True):
            assert torch.equal(mine, its)
    assert (again.shared, again.threshold, again.gate) == (shared, threshold, "softmax")


def test_other_files_are_refused(model, early, tmp_path):
    Cascade.of(early, model).save_pretrained(tmp_path)
    write_json(tmp_path / "cascade.json", {"format": "vinets.cascade", "version": 1, "gate": 3})
    with pytest.raises(ValueError, match="not of a version"):
        Cascade.from_pretrained(tmp_path)
    write_json(tmp_path / "cascade.json", [1])
    with pytest.raises(ValueError, match="does not describe a cascade"):
        Cascade.from_pretrained(tmp_path)


def test_networks_of_other_libraries_may_answer_late(model, early):
    class Wrapped(nn.Module):
        def forward(self, x):
            return {"logits": model(x)}

    with torch.no_grad():
        made = Cascade(early, Wrapped(), shared=False, threshold=2.0)(X)
        torch.testing.assert_close(made, model(X))
