from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from vinets.latent import LatentStore, collect_latents

IMAGES = torch.randn(37, 1, 6, 6, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(37) % 4
ROW = 4 * 3 * 6 * 6  # bytes of a latent
SHARD = 8 * ROW


class Counting(nn.Module):
    """A small network that counts its calls, and fails at one of them if asked."""

    def __init__(self, fail_at: int | None = None):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.conv = nn.Conv2d(1, 3, 3, padding=1)
        self.drop, self.flat = nn.Dropout(), nn.Flatten()
        self.calls, self.fail_at = 0, fail_at

    def forward(self, x):
        if self.calls == self.fail_at:
            raise InterruptedError
        self.calls += 1
        return self.flat(self.drop(self.conv(x)))


def batches(size: int):
    return zip(IMAGES.split(size), LABELS.split(size), strict=True)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file without the header of the shards, whose order is not fixed."""
    found = {}
    for path in directory.iterdir():
        data = path.read_bytes()
        skipped = 8 + int.from_bytes(data[:8], "little") if path.suffix == ".safetensors" else 0
        found[path.name] = data[skipped:]
    return found


def expected() -> torch.Tensor:
    return torch.cat([Counting().eval()(x).detach() for x, _ in batches(5)])


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_store_holds_what_the_network_says(tmp_path, on_disk):
    directory = tmp_path if on_disk else None
    store = collect_latents(Counting(), batches(5), directory=directory, shard_bytes=SHARD)
    assert torch.equal(store.tensor(), expected())
    assert torch.equal(store.labels, LABELS) and store.shape == (108,)


def test_training_flags_and_gradients_are_left_as_they_were():
    network = Counting().train()
    network.conv.eval()
    store = collect_latents(network, batches(10))
    assert [m.training for m in network.modules()] == [True, False, True, True]
    assert torch.is_grad_enabled() and not store.tensor().requires_grad
    network.fail_at = network.calls + 1
    with pytest.raises(InterruptedError):
        collect_latents(network, batches(10))
    with pytest.raises(MemoryError):
        collect_latents(Counting(), batches(10), memory_limit=1)
    assert [m.training for m in network.modules()] == [True, False, True, True]
    assert torch.is_grad_enabled()


def test_mappings_are_passed_by_keyword():
    class Adding(nn.Module):
        def forward(self, left, right):
            return left - right

    pairs = [({"right": torch.ones(2, 3), "left": torch.zeros(2, 3)}, torch.tensor([0, 1]))]
    assert torch.equal(collect_latents(Adding(), pairs).tensor(), -torch.ones(2, 3))


def test_latents_are_no_views_of_reused_buffers():
    buffer = torch.zeros(2, 3)

    def reused():
        for i in range(3):
            yield buffer.fill_(i), torch.tensor([0, 0])

    store = collect_latents(nn.Identity(), reused())
    assert store.tensor()[:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_progress_counts_examples(tmp_path):
    for directory in (None, tmp_path):
        seen = []
        collect_latents(
            nn.Flatten(), batches(10), directory=directory, shard_bytes=SHARD, progress=seen.append
        )
        assert seen[:4] == [10, 20, 30, 37] and seen[-1] == 37


def test_a_complete_store_is_opened_without_running_anything(tmp_path):
    first = collect_latents(
        Counting(), batches(5), directory=tmp_path, shard_bytes=SHARD, fingerprint="a"
    )
    network = Counting(fail_at=0)
    again = collect_latents(
        network, batches(5), directory=tmp_path, shard_bytes=SHARD, fingerprint="a"
    )
    assert network.calls == 0 and torch.equal(first.tensor(), again.tensor())
    assert torch.equal(LatentStore.open(tmp_path).tensor(), first.tensor())


@pytest.mark.parametrize("fail_at", [0, 1, 2, 4, 7])
def test_an_interrupted_run_goes_on_and_ends_bitwise_the_same(tmp_path, fail_at):
    with pytest.raises(InterruptedError):
        collect_latents(Counting(fail_at), batches(5), directory=tmp_path / "a", shard_bytes=SHARD)
    network = Counting()
    collect_latents(network, batches(5), directory=tmp_path / "a", shard_bytes=SHARD)
    collect_latents(Counting(), batches(5), directory=tmp_path / "b", shard_bytes=SHARD)
    on_disk = fail_at * 5 // 8 * 8  # whole shards
    assert network.calls == 8 - on_disk // 5
    assert (
        contents(tmp_path / "a") == contents(tmp_path / "b") and len(contents(tmp_path / "a")) == 6
    )


def test_going_on_with_other_batch_sizes_repeats_and_loses_nothing(tmp_path):
    with pytest.raises(InterruptedError):
        collect_latents(Counting(4), batches(5), directory=tmp_path, shard_bytes=SHARD)
    store = collect_latents(Counting(), batches(7), directory=tmp_path, shard_bytes=SHARD)
    torch.testing.assert_close(store.tensor(), expected())
    assert torch.equal(store.labels, LABELS)


def test_going_on_with_other_data_is_refused(tmp_path):
    with pytest.raises(InterruptedError):
        collect_latents(Counting(4), batches(5), directory=tmp_path, shard_bytes=SHARD)
    mirrored = zip(IMAGES.flip(0).split(5), LABELS.flip(0).split(5), strict=True)
    with pytest.raises(ValueError, match=r"labels of the batches differ.*same order"):
        collect_latents(Counting(), mirrored, directory=tmp_path, shard_bytes=SHARD)
    short = zip(IMAGES[:10].split(5), LABELS[:10].split(5), strict=True)
    with pytest.raises(ValueError, match=r"hold 10 examples, fewer than the 16 already stored"):
        collect_latents(Counting(), short, directory=tmp_path, shard_bytes=SHARD)
    with pytest.raises(ValueError, match=r"shape \(108,\)\. Got .*shape \(36,\)"):
        collect_latents(nn.Flatten(), batches(5), directory=tmp_path, shard_bytes=SHARD)


def test_another_fingerprint_is_refused(tmp_path):
    collect_latents(
        Counting(), batches(5), directory=tmp_path, shard_bytes=SHARD, fingerprint="resnet18"
    )
    with pytest.raises(ValueError, match=r"of 'resnet18', not of 'vit'\. Choose another directory"):
        collect_latents(
            Counting(), batches(5), directory=tmp_path, shard_bytes=SHARD, fingerprint="vit"
        )


def test_the_limit_counts_all_latents_in_memory():
    limit = 37 * ROW
    assert collect_latents(Counting(), batches(5), memory_limit=limit).nbytes == limit
    network = Counting()
    with pytest.raises(
        MemoryError, match=r"of 25 examples take 10\.5 KiB.*pass a directory, fewer"
    ):
        collect_latents(network, batches(5), memory_limit=20 * ROW)
    assert network.calls == 5


def test_a_directory_has_no_such_limit(tmp_path):
    store = collect_latents(
        Counting(), batches(5), directory=tmp_path, shard_bytes=SHARD, memory_limit=20 * ROW
    )
    assert len(store) == 37 and store.memory_limit == 20 * ROW


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precision_is_kept_on_disk(tmp_path, dtype):
    pairs = [(IMAGES.to(dtype), LABELS)]
    store = collect_latents(nn.Flatten(), pairs, directory=tmp_path, shard_bytes=SHARD)
    assert store.dtype == dtype and torch.equal(store.tensor(), IMAGES.to(dtype).flatten(1).float())


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
        (
            nn.LSTM(6, 2),
            [(IMAGES[:, 0], LABELS)],
            r"must return a Tensor\. Got tuple.*LatentReader",
        ),
    ],
)
def test_bad_input_is_named(tmp_path, network, pairs, message):
    for directory in (None, tmp_path):
        with pytest.raises(ValueError, match=message):
            collect_latents(network, pairs, directory=directory, shard_bytes=SHARD)


def test_a_complete_store_without_a_fingerprint_belongs_to_its_labels(tmp_path):
    options = {"directory": tmp_path, "shard_bytes": SHARD}
    collect_latents(Counting(), batches(5), **options)
    network = Counting()
    collect_latents(network, batches(5), **options)
    assert network.calls == 0
    given = list(batches(5))
    others = [*given[:-1], (given[-1][0], given[-1][1] + 1)], given[:-1], [*given, given[0]]
    for other in others:
        with pytest.raises(ValueError, match="delete the directory"):
            collect_latents(Counting(), other, **options)
