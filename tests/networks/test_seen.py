"""A network knows what it was trained on, wherever it goes, and is not tested on it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch

import vinets
from vinets.core.settings import TrainingOptions
from vinets.data import DataSplit, digits
from vinets.data.digest import examples_digest
from vinets.export import export_network, open_exported
from vinets.models import digits_cnn
from vinets.models.origin import trained_on
from vinets.networks.open import open_network
from vinets.runs.on_data import open_to_export, open_with_data
from vinets.runs.scratch import train_into
from vinets.runs.setup import Setup, SetupFiles
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import Trial

WHOLE = digits()
SHORT = {"epochs": 1, "progress": None}
SEEN = "was trained on these examples"
FAST = {"seconds": 0.01, "repeats": 2, "device": "cpu"}


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
    train_into(
        out, "digits_cnn", WHOLE, recipe=TrainingOptions(epochs=1), device="cpu", progress=None
    )
    return out


@pytest.fixture(scope="module")
def net(model):
    options = {"head": "products", "parameters": 2000}
    return vinets.build(model, WHOLE.train, "relu2", progress=None, **options)[0]


@pytest.mark.parametrize("which", ["model", "net"])
def test_a_test_on_training_examples_is_refused_from_python(which, request):
    network = request.getfixturevalue(which)
    order = torch.randperm(len(WHOLE.train))
    for seen in (WHOLE.train, WHOLE.train.subset(order), DataSplit("d", WHOLE.test, WHOLE.train)):
        for measure in (
            lambda data: vinets.evaluate(network, data),
            lambda data: vinets.compare({"first": network}, data, **FAST),
        ):
            with pytest.raises(ValueError, match=SEEN):
                measure(seen)
    for fair in (WHOLE, WHOLE.test, (WHOLE.test.images.float(), WHOLE.test.labels)):
        assert vinets.evaluate(network, fair).examples == len(WHOLE.test)


def test_training_examples_are_measured_where_that_is_asked_for(model):
    for data in (WHOLE, WHOLE.train):
        found = vinets.evaluate(model, data, part="train")
        assert found.examples == len(WHOLE.train)
    table = vinets.compare({"a": model}, WHOLE, part="train", **FAST)
    assert len(table.rows) == 1
    with pytest.raises(ValueError, match="'part'"):
        vinets.evaluate(model, WHOLE, part="all")


def test_the_last_training_counts_and_the_data_of_the_first_is_kept(folder):
    network, more = open_network(folder).network, WHOLE.train.subset(torch.arange(300))
    known = trained_on(network)
    vinets.train_classifier(network, more, **SHORT)
    assert trained_on(network) == known | {"training": examples_digest(more)}
    with pytest.raises(ValueError, match=SEEN):
        vinets.evaluate(network, more)
    with pytest.raises(ValueError, match="another split of digits"):
        vinets.evaluate(network, digits(seed=1))


def test_no_example_is_known_by_itself(net, folder):
    """A saved network says which data it was trained on, in a few digests."""
    for network in (net, open_network(folder).network):
        assert len(json.dumps(trained_on(network))) < 200


def test_digests_go_with_the_folder_and_with_the_weights_alone(folder):
    weights = folder / "weights.safetensors"
    other = replace(digits(seed=1), name="else")
    for opened in (open_network(folder), open_network("digits_cnn", weights)):
        vinets.evaluate(opened.network, WHOLE)
        with pytest.raises(ValueError, match="another split of else"):
            vinets.evaluate(opened.network, other)
        with pytest.raises(ValueError, match=SEEN):
            vinets.evaluate(opened.network, DataSplit("digits", WHOLE.test, WHOLE.train))
    files = SetupFiles("digits_cnn", str(weights), "digits").open("net", torch.device("cpu"))
    assert trained_on(files.model) == trained_on(open_network(folder).network)


def test_no_trial_is_run_on_a_test_part_that_was_seen(folder, tmp_path):
    model = open_network(folder).network
    setup = Setup("net", model, replace(digits(seed=1), name="else"), torch.device("cpu"))
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
    if which == "whole":  # the others know the examples of their training alone
        with pytest.raises(ValueError, match="was trained on another split of digits"):
            open_with_data(tmp_path / "net.onnx", "digits", split_seed=5)
    with pytest.raises(ValueError, match=SEEN):
        export_network(given, tmp_path / "x.onnx", data=DataSplit("else", WHOLE.test, WHOLE.train))


def test_a_network_of_which_nothing_is_known_is_measured():
    network = digits_cnn()
    vinets.evaluate(network, WHOLE.train)
    vinets.evaluate(copy.deepcopy(network), WHOLE)
