"""Early exit: whoever is sure leaves early, the others get the uncut network's answer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from vinets import attach_distances, build, fine_tune, train_classifier
from vinets.data import digits
from vinets.files import write_json
from vinets.latent import remainder, truncate
from vinets.models import digits_cnn, resnet18
from vinets.nn import Cascade
from vinets.nn.cascade import choose_threshold
from vinets.nn.export import export_network

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


@pytest.fixture(scope="module")
def measuring(early):
    """The same, with distances to the classes."""
    return attach_distances(early.folded(), DATA.train, per_class=20)


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
    def by_size(network, latents, logits):
        return latents.flatten(1).norm(dim=1)

    sizes = by_size(early, early.latents(X), None)
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
        confidence = early(inputs).softmax(1).amax(1)
    assert accuracy == pytest.approx(found.accuracy)
    assert found.accuracy >= found.late_accuracy - loss - 1e-9
    assert float(sure.double().mean()) == pytest.approx(found.early)
    if loss == 1.0:
        assert found.early == 1
    # any lower threshold loses more than was allowed
    for lower in confidence[confidence < found.threshold].tolist():
        cascade.threshold = lower
        with torch.no_grad():
            worse = float((cascade(inputs).argmax(1) == labels).double().mean())
        assert worse < found.late_accuracy - loss


def test_images_of_equal_confidence_leave_together():
    sure = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.1])
    first, second = torch.tensor([1, 1, 1, 0, 1]), torch.ones(5)
    assert choose_threshold(sure, first, second, 0.0).early == 0.2
    found = choose_threshold(sure, first, second, 0.2)
    assert (found.early, found.accuracy) == (1.0, 0.8)


def test_entropy_and_distance_order_images_as_they_are_defined(model, early, measuring):
    cascades = {gate: Cascade.of(measuring, model, gate=gate) for gate in ("entropy", "distance")}
    with torch.no_grad():
        (logits, entropy, _), (_, distance, _) = (one.first(X) for one in cascades.values())
        shares, logs = logits.softmax(1), measuring.distance(X).log()
    torch.testing.assert_close(-entropy, torch.distributions.Categorical(shares).entropy())
    for k, answer in enumerate(logits.argmax(1).tolist()):
        others = [float(logs[k, c]) for c in range(10) if c != answer]
        assert float(distance[k]) == pytest.approx(min(others) - float(logs[k, answer]), abs=1e-4)
    with pytest.raises(ValueError, match="knows no distances"):
        Cascade.of(early, model, gate="distance")(X)


def test_the_distances_of_a_gate_are_saved_with_it(model, measuring, tmp_path):
    cascade = Cascade.of(measuring, model, threshold=0.5, gate="distance")
    cascade.save_pretrained(tmp_path)
    with torch.no_grad():
        for mine, its in zip(
            cascade.first(X), Cascade.from_pretrained(tmp_path).first(X), strict=True
        ):
            assert torch.equal(mine, its)


@pytest.mark.parametrize("gate", ["softmax", "distance"])
@pytest.mark.parametrize("shared", [True, False])
def test_one_onnx_graph_answers_as_the_cascade_does(model, measuring, tmp_path, shared, gate):
    runtime = pytest.importorskip("onnxruntime")
    cascade = Cascade(measuring, model, shared=False, gate=gate).eval()
    if shared:
        cascade = Cascade.of(measuring, model, gate=gate)
    with torch.no_grad():
        values = cascade.first(X)[1].sort().values
    cascade.threshold = float(values[31:33].mean())  # half of the images, and none at the limit
    path = tmp_path / "cascade.onnx"
    report = export_network(cascade, path)
    assert report.largest_difference < 1e-5
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(path.read_bytes(), options)
    for threshold in (None, -np.inf, np.inf, float(values[9:11].mean())):
        more = {} if threshold is None else {"threshold": np.array(threshold, np.float32)}
        logits, left = session.run(["logits", "left_early"], {"input": X.numpy(), **more})
        if threshold is not None:
            cascade.threshold = threshold
        with torch.no_grad():
            expected, early_ones = cascade.answers(X)
        assert np.array_equal(left, early_ones.numpy())
        np.testing.assert_allclose(logits, expected.numpy(), atol=1e-5)
        # also one by one, where a whole branch is left out
        for k in range(3):
            alone = session.run(["logits"], {"input": X[k : k + 1].numpy(), **more})[0]
            np.testing.assert_allclose(alone, expected[k : k + 1].numpy(), atol=1e-5)


def test_what_cannot_decide_for_every_image_is_no_format_for_a_cascade(model, early, tmp_path):
    with pytest.raises(ValueError, match=r"cannot be exported to torch\.export.* onnx"):
        export_network(Cascade.of(early, model), tmp_path / "cascade.pt2")


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


def test_weights_that_are_a_link_out_of_the_folder_are_not_followed(model, early, tmp_path):
    folder, elsewhere = tmp_path / "cascade", tmp_path / "elsewhere"
    Cascade.of(early, model).save_pretrained(folder)
    (weights,) = folder.glob("*.safetensors")
    weights.rename(elsewhere)
    weights.symlink_to(elsewhere)
    with pytest.raises(ValueError, match="is a link out of"):
        Cascade.from_pretrained(folder)


def test_networks_of_other_libraries_may_answer_late(model, early):
    class Wrapped(nn.Module):
        def forward(self, x):
            return {"logits": model(x)}

    with torch.no_grad():
        made = Cascade(early, Wrapped(), shared=False, threshold=2.0)(X)
        torch.testing.assert_close(made, model(X))
