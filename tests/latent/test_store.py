from __future__ import annotations

import pytest
import torch

from vinets.latent.collect import LatentStore, collect_latents

VALUES = torch.randn(23, 2, 3, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(23) % 3


@pytest.fixture(params=["whole", "runs", "file", "half"])
def store(request) -> LatentStore:
    """The same latents kept in four ways."""
    if request.param == "whole":
        return LatentStore.from_tensor(VALUES, LABELS)
    if request.param == "runs":
        return LatentStore.from_tensor(VALUES.split([1, 0, 9, 13]), LABELS)
    if request.param == "half":
        return LatentStore.from_tensor(VALUES.half(), LABELS)
    batches = zip(VALUES.split(4), LABELS.split(4), strict=True)
    return collect_latents(torch.nn.Identity(), batches, memory_limit=5 * 6 * 4)


def expected(store: LatentStore) -> torch.Tensor:
    return VALUES.to(store.dtype).float()


@pytest.mark.parametrize("size", [None, 1, 4, 5, 23, 100])
def test_chunks_are_the_rows_in_order(store, size):
    chunks = list(store.chunks(size))
    assert torch.equal(torch.cat([z for z, _ in chunks]), expected(store))
    assert torch.equal(torch.cat([y for _, y in chunks]), LABELS)
    assert all(z.dtype == torch.float32 and len(z) == len(y) for z, y in chunks)
    assert {len(z) for z, _ in chunks[:-1]} <= {size}


def test_everything_and_every_class_at_once(store):
    assert torch.equal(store.tensor(), expected(store))
    store.memory_limit = 1 << 20
    for k in range(3):
        rows = [z for z, y in zip(expected(store), LABELS, strict=True) if y == k]
        assert torch.equal(store.of_class(k), torch.stack(rows))


def test_sizes(store):
    assert len(store) == 23 and store.shape == (2, 3) and torch.equal(store.labels, LABELS)
    assert store.nbytes == 23 * 6 * (2 if store.dtype == torch.float16 else 4)


def test_default_chunks_hold_about_64_mebibytes():
    values = torch.zeros(3, 1).expand(3, 9 << 20)  # 36 MiB a row, none of it allocated
    store = LatentStore.from_tensor(values, torch.zeros(3, dtype=torch.int64))
    assert [len(z) for z, _ in store.chunks()] == [1, 1, 1]


def test_the_tensor_in_memory_is_not_copied_and_has_no_limit():
    store = LatentStore.from_tensor(VALUES, LABELS, memory_limit=1)
    assert store.tensor() is VALUES


def test_large_results_are_refused_with_both_sizes():
    store = LatentStore.from_tensor(VALUES.split(10), LABELS, memory_limit=200)
    with pytest.raises(MemoryError, match=r"all latents .*552 B, more than memory_limit \(200 B\)"):
        store.tensor()
    assert len(store.of_class(2)) == 7  # 168 bytes
    store.memory_limit = 100
    with pytest.raises(MemoryError, match=r"class 2 \(7 of shape \(2, 3\)\) takes 168 B"):
        store.of_class(2)


def test_a_class_that_is_not_there_is_refused(store):
    with pytest.raises(ValueError, match=r"'k'.*labels \[0, 1, 2\].*Got 3"):
        store.of_class(3)


@pytest.mark.parametrize(
    ("values", "labels", "message"),
    [
        (VALUES, LABELS[:-1], r"'labels'.*23 integers.*\(22,\)"),
        (VALUES, LABELS.float(), r"'labels'.*float32"),
        (VALUES[:, 0, 0], LABELS, r"'values'.*floats of one shape"),
        (VALUES.int(), LABELS, r"'values'.*int32"),
        ([VALUES[:3], VALUES[3:].half()], LABELS, r"'values'.*float16"),
        ([VALUES[:3], VALUES[3:, 0]], LABELS, r"'values'.*\(20, 3\)"),
        ([], LABELS, r"'values'"),
    ],
)
def test_bad_input_is_named(values, labels, message):
    with pytest.raises(ValueError, match=message):
        LatentStore.from_tensor(values, labels)
