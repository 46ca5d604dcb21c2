from __future__ import annotations

import errno
import gc
import io
import math
import os
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn

from vinets import collect
from vinets.core.progress import Lines
from vinets.latent import LatentStore, collect_latents

IMAGES = torch.randn(37, 1, 6, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(37) % 4
VALUES = torch.randn(23, 2, 3, generator=torch.Generator().manual_seed(0))
ANSWERS = torch.arange(23) % 3
ROW = 4 * 3 * 6 * 6  # bytes of a latent
LIMITS = [0, ROW, 12 * ROW, 37 * ROW - 1, 37 * ROW]  # all but the last need a file


@pytest.fixture(params=["whole", "runs", "file", "half"])
def store(request) -> LatentStore:
    """The same latents kept in four ways."""
    if request.param == "file":
        pairs = zip(VALUES.split(4), ANSWERS.split(4), strict=True)
        return collect_latents(nn.Identity(), pairs, memory_limit=5 * 6 * 4)
    ways = {"whole": VALUES, "runs": VALUES.split([1, 0, 9, 13]), "half": VALUES.half()}
    return LatentStore.from_tensor(ways[request.param], ANSWERS)


@pytest.mark.parametrize("size", [None, 1, 4, 5, 23, 100])
def test_chunks_are_the_rows_in_order(store, size):
    expected = VALUES.to(store.dtype).float()
    chunks = list(store.chunks(size))
    assert torch.equal(torch.cat([z for z, _ in chunks]), expected)
    assert torch.equal(torch.cat([y for _, y in chunks]), ANSWERS)
    assert all(z.dtype == torch.float32 and len(z) == len(y) for z, y in chunks)
    assert {len(z) for z, _ in chunks[:-1]} <= {size}
    store.memory_limit = 1 << 20
    assert torch.equal(store.tensor(), expected) and torch.equal(store.labels, ANSWERS)
    assert len(store) == 23 and store.shape == (2, 3)
    assert store.nbytes == 23 * 6 * (2 if store.dtype == torch.float16 else 4)


def test_default_chunks_hold_about_64_mebibytes():
    values = torch.zeros(3, 1).expand(3, 9 << 20)  # 36 MiB a row, none of it allocated
    store = LatentStore.from_tensor(values, torch.zeros(3, dtype=torch.int64))
    assert [len(z) for z, _ in store.chunks()] == [1, 1, 1]


def test_a_tensor_in_memory_is_not_copied_and_a_large_copy_is_refused():
    assert LatentStore.from_tensor(VALUES, ANSWERS, memory_limit=1).tensor() is VALUES
    store = LatentStore.from_tensor(VALUES.split(10), ANSWERS, memory_limit=200)
    with pytest.raises(MemoryError, match=r"all latents .*552 B, more than memory_limit \(200 B\)"):
        store.tensor()


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (VALUES, ANSWERS[:-1], r"'labels'.*23 integers.*\(22,\)"),
        (VALUES, ANSWERS.float(), r"'labels'.*float32"),
        (VALUES[:, 0, 0], ANSWERS, r"'values'.*floats of one shape"),
        (VALUES.int(), ANSWERS, r"'values'.*int32"),
        ([VALUES[:3], VALUES[3:].half()], ANSWERS, r"'values'.*float16"),
        ([VALUES[:3], VALUES[3:, 0]], ANSWERS, r"'values'.*\(20, 3\)"),
        ([], ANSWERS, r"'values'"),
    ],
)
def test_values_and_labels_that_make_no_store_are_named(values, labels, message):
    with pytest.raises(ValueError, match=message):
        LatentStore.from_tensor(values, labels)


# --- collected from a network -----------------------------------------------------------------


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), nn.Dropout(), nn.Flatten())


def batches(size: int):
    return zip(IMAGES.split(size), LABELS.split(size), strict=True)


@pytest.mark.parametrize("limit", LIMITS)
def test_the_store_holds_what_the_network_says_and_progress_counts_examples(limit):
    net, seen = network(), []
    store = collect_latents(net, batches(10), memory_limit=limit, progress=seen.append)
    assert seen == [10, 20, 30, 37]
    expected = torch.cat([net.eval()(x).detach() for x, _ in batches(10)])
    assert torch.equal(store.tensor(), expected) and not store.tensor().requires_grad
    assert torch.equal(store.labels, LABELS) and store.shape == (108,)


@pytest.mark.parametrize("broken", [False, True])
def test_training_flags_and_gradients_are_left_as_they_were(broken):
    net, pairs = network(), [*batches(10)]
    net[0].eval()
    pairs += [(IMAGES[:, :, 0], LABELS)] if broken else []  # no convolution takes these
    with pytest.raises(RuntimeError) if broken else nullcontext():
        collect_latents(net, pairs)
    assert [m.training for m in net.modules()] == [True, False, True, True]
    assert torch.is_grad_enabled()


def test_mappings_are_passed_by_keyword():
    class Adding(nn.Module):
        def forward(self, left, right):
            return left - right

    pairs = [({"right": torch.ones(2, 3), "left": torch.zeros(2, 3)}, torch.tensor([0, 1]))]
    assert torch.equal(collect_latents(Adding(), pairs).tensor(), -torch.ones(2, 3))


def test_latents_are_no_views_of_reused_buffers():
    buffer = torch.zeros(2, 3)
    reused = ((buffer.fill_(i), torch.tensor([0, 0])) for i in range(3))
    store = collect_latents(nn.Identity(), reused)
    assert store.tensor()[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_the_file_has_no_name_and_ends_with_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = Path("/proc/self/map_files")
    store = collect_latents(network(), batches(5), memory_limit=20 * ROW)
    assert store.memory_limit == 20 * ROW and not list(tmp_path.iterdir())
    (values,) = store.runs
    values[0] = 0  # a private mapping: nobody else sees it
    if folder.is_dir():
        mapped = lambda: [p for p in folder.iterdir() if str(tmp_path) in os.readlink(p)]  # noqa: E731
        assert mapped()
        del store, values
        gc.collect()
        assert not mapped()


def test_a_full_disk_is_one_sentence(monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vinets.latent.collect.TemporaryFile", Full)
    with pytest.raises(OSError, match=r"cannot be written to .*No space left.*TMPDIR"):
        collect_latents(network(), batches(5), memory_limit=20 * ROW)


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_latents_of_two_kinds_are_refused(limit):
    pairs = [(IMAGES, LABELS), (IMAGES[..., :3], LABELS)]
    with pytest.raises(ValueError, match="one shape"):
        collect_latents(nn.Flatten(), pairs, memory_limit=limit)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precision_is_kept_in_the_file(dtype):
    pairs = [(IMAGES.to(dtype), LABELS)]
    store = collect_latents(nn.Flatten(), pairs, memory_limit=0)
    ((latents, _),) = store.chunks()
    assert store.dtype == dtype
    assert torch.equal(latents, IMAGES.to(dtype).flatten(1).float())


@pytest.mark.parametrize(
    ("network", "pairs", "message"),
    [
        (nn.Identity(), [], "batches hold no examples"),
        (nn.Flatten(), [(IMAGES[:0], LABELS[:0])], "batches hold no examples"),
        (nn.Flatten(0), [(IMAGES, LABELS)], r"must return floats \(37, \.\.\.\)"),
        (nn.Identity(), [(IMAGES.int(), LABELS)], r"must return floats.*int32"),
        (nn.Identity(), [(IMAGES, LABELS[:5])], r"for 5 examples"),
        (nn.Identity(), [(IMAGES, LABELS.float())], r"integer labels \(b,\)"),
        (nn.Identity(), [(IMAGES, [1, 2])], r"Got labels list"),
        (nn.LSTM(6, 2), [(IMAGES[:, 0], LABELS)], r"return a Tensor\. Got tuple.*LatentReader"),
    ],
)
def test_bad_input_is_named(network, pairs, message):
    for limit in (0, 1 << 20):
        with pytest.raises(ValueError, match=message):
            collect_latents(network, pairs, memory_limit=limit)


# --- latents of a cut network -----------------------------------------------------------------


def test_latents_are_what_the_cut_network_returns(train, latents):
    store = latents.store
    assert len(store) == 600 and store.labels.bincount().tolist() == [60] * 10
    with torch.no_grad():
        rows = [latents.reader(latents.backbone(x)).flatten(1) for x, _ in train.batches(500)]
    for value in store.tensor()[::97].flatten(1):
        assert ((torch.cat(rows) - value).abs().amax(1) < 1e-5).any()
    # four fifths of every class are fitted
    assert [int(latents.fit[store.labels == k].sum()) for k in range(10)] == [48] * 10


def test_the_record_tells_how_to_make_it_again(latents, train):
    record = latents.record
    assert record.cut == "relu3" and record.classes == train.classes
    assert record.inputs == {"": {"shape": [1, 8, 8], "dtype": "float32"}}
    assert record.source["name"] == "digits_cnn"
    assert record.preprocessing == train.preprocessing.to_dict()
    assert latents.original_parameters == 103_466 and latents.n_classes == 10


def test_progress_counts_the_examples(model, train):
    watch = Lines(every=math.inf)
    collect(model, train, "relu1", per_class=8, batch_size=32, progress=watch)
    assert (watch.stage, watch.total, watch.done) == ("latents", 100, 100)


def test_unknown_places_and_readings_are_named(model, train):
    for cut, options, message in (
        ("conv33", {}, r"nearest names are .*conv3"),
        (99, {}, "must be an index below"),
        ("relu1", {"read": "tokens"}, "'read' parameter of collect"),
        ("relu1", {"read": "class_token"}, "reads tokens"),
    ):
        with pytest.raises(ValueError, match=message):
            collect(model, train, cut, progress=None, **options)


@pytest.mark.parametrize(
    ("read", "pool", "shape"), [("pool", 2, (64, 4)), ("mean_token", None, (64, 1))]
)
def test_latents_are_read_as_asked(model, train, read, pool, shape):
    found = collect(model, train, "relu3", per_class=4, read=read, pool=pool, progress=None)
    assert found.shape == shape
