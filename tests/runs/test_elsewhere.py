"""Networks on other data than coloured images, opened from files: all heads behind their cuts."""

from __future__ import annotations

import struct

import pytest
import torch

from vinets.core.progress import progress_of
from vinets.heads import SimKDHead
from vinets.models import create_model, save_weights
from vinets.runs.compare import head_trials
from vinets.runs.run import run_trials
from vinets.runs.setup import Cut, SetupFiles
from vinets.runs.store import Store
from vinets.runs.trial import Trial

BUDGET = 5_000
START = Trial.of(
    "products",
    network="text",
    cut="blocks.0",
    checkpoints=False,
    parameters=BUDGET,
    read="map",
    per_class=4,
    epochs=1,
    batch_size=8,
)


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


def test_a_network_takes_as_many_channels_as_the_images_have(tmp_path):
    for part in ("train", "t10k"):
        for what, shape in (("images-idx3", (4, 8, 8)), ("labels-idx1", (4,))):
            values = torch.arange(4, dtype=torch.uint8) + 4 * (part == "t10k")
            values = values[:, None, None].expand(4, 8, 8) if len(shape) == 3 else values % 2
            head = struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape)
            path = tmp_path / f"{part}-{what}-ubyte"
            path.write_bytes(head + values.contiguous().numpy().tobytes())
    weights = tmp_path / "w.safetensors"
    save_weights(create_model("resnet18", 2, inputs=1), weights)
    setup = SetupFiles("resnet18", str(weights), f"idx:{tmp_path}").open(
        "grey", torch.device("cpu")
    )
    assert setup.model.conv1.in_channels == 1
    assert len(setup.test) == 4 and 0 <= setup.accuracy <= 1
