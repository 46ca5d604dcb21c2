"""A network knows what it was trained on, wherever it goes, and is not tested on it."""

from __future__ import annotations

import copy

import pytest
import torch

import vinets
from vinets.data import DataSplit, ImageSource, digits
from vinets.models import digits_cnn
from vinets.nn.export import export_network, open_exported
from vinets.nn.seen import marks_of, trained_on
from vinets.pipeline.opening import open_network, open_to_export, open_with_data
from vinets.pipeline.scratch import train_into
from vinets.pipeline.setup import Setup, SetupFiles
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.pipeline.trials import run_trials
from vinets.settings import Recipe

WHOLE = digits()
SHORT = {"epochs": 1, "progress": None}
SEEN = r"has seen about \d+% of these examples"
FAST = {"seconds": 0.01, "repeats": 2, "device": "cpu"}


def mixed(part: float) -> ImageSource:
    """Test images, of which a part are training images."""
    count = round(part * 100)
    images = torch.cat([WHOLE.train.images[:count], WHOLE.test.images[: 100 - count]])
    return ImageSource(images, [0] * 100, WHOLE.test.classes, WHOLE.test.preprocessing)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = digits_cnn()
    vinets.train_classifier(model, WHOLE.train, **SHORT)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What vinets train writes."""
    out = tmp_path_factory.mktemp("seen") / "base"
    train_into(out, "digits_cnn", WHOLE, recipe=Recipe(epochs=1), device="cpu", progress=None)
    return out


@pytest.fixture(scope="module")
def net(model):
    options = {"placement": "products", "head_parameters": 2000, "per_class": 8, "reuse": True}
    return vinets.build(model, WHOLE.train, "relu2", progress=None, **options)[0]


@pytest.mark.parametrize("which", ["model", "net"])
def test_a_test_on_training_examples_is_refused_from_python(which, request):
    network = request.getfixturevalue(which)
    for seen in (WHOLE.train, mixed(0.5), DataSplit("d", WHOLE.test, WHOLE.train)):
        for measure in (
            lambda data: vinets.evaluate(network, data),
            lambda data: vinets.compare({"first": network}, data, **FAST),
        ):
            with pytest.raises(ValueError, match=r"seen about|another split"):
                measure(seen)
    pairs = WHOLE.train.images[:200], WHOLE.train.labels[:200]
    assert vinets.evaluate(network, (pairs[0].float(), pairs[1])).evaluation.examples == 200
    for fair in (WHOLE, WHOLE.test, mixed(0.02)):
        vinets.evaluate(network, fair)


def test_training_examples_are_measured_where_that_is_asked_for(model):
    for data in (WHOLE, WHOLE.train):
        found = vinets.evaluate(model, data, part="train")
        assert found.evaluation.examples == len(WHOLE.train)
    table = vinets.compare({"a": model}, WHOLE, part="train", **FAST)
    assert len(table.rows) == 1
    with pytest.raises(ValueError, match="'part'"):
        vinets.evaluate(model, WHOLE, part="all")


def test_what_was_seen_before_is_not_forgotten():
    torch.manual_seed(0)
    model, halves = digits_cnn(), [WHOLE.train.subset(torch.arange(i, i + 300)) for i in (0, 300)]
    for half in halves:
        vinets.train_classifier(model, half, **SHORT)
    options = {"placement": "products", "head_parameters": 2000, "per_class": 8, "reuse": True}
    third = WHOLE.train.subset(torch.arange(600, 900))
    net = vinets.build(model, third, "relu2", progress=None, **options)[0]
    fourth = WHOLE.train.subset(torch.arange(900, 1200))
    vinets.fine_tune(net, fourth, **SHORT)
    for half in halves:
        with pytest.raises(ValueError, match=SEEN):
            vinets.evaluate(model, half)
    for part in (*halves, third, fourth):
        with pytest.raises(ValueError, match=SEEN):
            vinets.evaluate(net, part)
    vinets.evaluate(model, third)


def test_marks_go_with_the_folder_and_with_the_weights_alone(folder):
    weights = folder / "weights.safetensors"
    other = DataSplit("else", WHOLE.test, WHOLE.train)
    for opened in (open_network(folder), open_network("digits_cnn", weights)):
        assert marks_of(opened.network)
        vinets.evaluate(opened.network, WHOLE)
        with pytest.raises(ValueError, match="another split of else"):
            vinets.evaluate(opened.network, other)
    files = SetupFiles("digits_cnn", str(weights), "digits").open("net", torch.device("cpu"))
    assert trained_on(files.model) == trained_on(open_network(folder).network)


def test_no_trial_is_run_on_a_test_part_that_was_seen(folder, tmp_path):
    model = open_network(folder).network
    setup = Setup("net", model, DataSplit("else", WHOLE.test, WHOLE.train), torch.device("cpu"))
    trial = Trial(network="net", cut="relu2", head="linear")
    with pytest.raises(ValueError, match="net was trained on another split of else"):
        run_trials([trial], {"net": setup}, Store(tmp_path), progress=None)
    with pytest.raises(ValueError, match="was trained on another split of else"):
        vinets.compress(model, setup.data, "drop=1", device="cpu", progress=None)


@pytest.mark.parametrize("which", ["cut", "whole", "module"])
def test_an_onnx_file_knows_it_too(which, net, model, folder, tmp_path):
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    given = {"cut": net, "whole": open_to_export(folder)[0], "module": model}[which]
    export_network(given, tmp_path / "net.onnx", example=WHOLE.test.example())
    opened = open_exported(tmp_path / "net.onnx")
    vinets.evaluate(opened, WHOLE)
    with pytest.raises(ValueError, match=SEEN):
        vinets.evaluate(opened, WHOLE.train)
    with pytest.raises(ValueError, match="was trained on another split of digits"):
        open_with_data(tmp_path / "net.onnx", "digits", split_seed=5)
    with pytest.raises(ValueError, match="another split of else"):
        export_network(given, tmp_path / "x.onnx", data=DataSplit("else", WHOLE.test, WHOLE.train))


def test_a_network_of_which_nothing_is_known_is_measured():
    network = digits_cnn()
    vinets.evaluate(network, WHOLE.train)
    vinets.evaluate(copy.deepcopy(network), WHOLE)
