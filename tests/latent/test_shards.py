from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

from vinets.algebra.storage import write_tensors
from vinets.latent.shards import (
    Manifest,
    append_latents,
    read_labels,
    read_manifest,
    read_shard,
)
from vinets.latent.store import LatentStore

VALUES = torch.arange(22.0).reshape(11, 2)
LABELS = torch.arange(11)
SHARD = 4 * 2 * 4  # bytes of four latents


@pytest.fixture
def directory(tmp_path):
    """Eleven latents in shards of four."""
    batches = zip(VALUES.split([1, 9, 1]), LABELS.split([1, 9, 1]), strict=True)
    append_latents(tmp_path / "latents", "net", batches, SHARD)
    return tmp_path / "latents"


def test_shards_have_one_size_whatever_the_batches(directory):
    manifest = read_manifest(directory)
    assert manifest == Manifest("net", (2,), "float32", (4, 4, 3), complete=True)
    shards = [read_shard(directory, i, manifest) for i in range(3)]
    assert torch.equal(torch.cat([v for v, _ in shards]), VALUES)
    assert torch.equal(torch.cat([y for _, y in shards]), LABELS)
    names = sorted(path.name for path in directory.iterdir())
    assert names == [*(f"latents-0000{i}.safetensors" for i in range(3)), "manifest.json"]


def test_nothing_counts_before_the_manifest_says_so(tmp_path):
    def interrupted():
        yield VALUES[:7], LABELS[:7]
        raise InterruptedError

    with pytest.raises(InterruptedError):
        append_latents(tmp_path, "net", interrupted(), SHARD)
    assert read_manifest(tmp_path) == Manifest("net", (2,), "float32", (4,), complete=False)
    with pytest.raises(ValueError, match="no complete latents"):
        LatentStore.open(tmp_path)


def test_a_failed_write_leaves_the_shards_before_it(tmp_path):
    (tmp_path / "latents-00001.safetensors").mkdir()  # in the way
    with pytest.raises(OSError, match="could not be written"):
        append_latents(tmp_path, "net", [(VALUES[:8], LABELS[:8])], SHARD)
    manifest = read_manifest(tmp_path)
    assert manifest.counts == (4,)
    assert torch.equal(read_shard(tmp_path, 0, manifest)[0], VALUES[:4])
    assert len(list(tmp_path.iterdir())) == 3  # the manifest, the shard, and what was in the way


def truncated(path):
    path.write_bytes(path.read_bytes()[:-8])


def unmarked(path):
    save_file({"values": VALUES[:4], "labels": LABELS[:4]}, path)


def another_kind(path):
    write_tensors(path, "ideal", {"values": VALUES[:4], "labels": LABELS[:4]}, {})


def another_network(path):
    facts = {"fingerprint": "other", "index": 0}
    write_tensors(path, "latents", {"values": VALUES[:4], "labels": LABELS[:4]}, facts)


def another_shape(path):
    facts = {"fingerprint": "net", "index": 0}
    write_tensors(path, "latents", {"values": VALUES[:4, :1], "labels": LABELS[:4]}, facts)


def without_labels(path):
    facts = {"fingerprint": "net", "index": 0}
    write_tensors(path, "latents", {"values": VALUES[:4]}, facts)


def another_index(path):
    shutil.copy(path.with_name("latents-00001.safetensors"), path)


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (truncated, ValueError, "is not a readable safetensors file"),
        (lambda path: path.write_bytes(b""), ValueError, "is not a readable safetensors file"),
        (unmarked, ValueError, r"must hold vinets\.latents"),
        (another_kind, ValueError, r"must hold vinets\.latents"),
        (another_network, ValueError, r"is not the shard that manifest\.json describes"),
        (another_shape, ValueError, r"is not the shard that manifest\.json describes"),
        (without_labels, ValueError, r"is not the shard that manifest\.json describes"),
        (another_index, ValueError, r"is not the shard that manifest\.json describes"),
        (lambda path: path.unlink(), FileNotFoundError, "does not exist"),
    ],
)
def test_spoilt_shards_are_refused_in_one_sentence(directory, spoil, error, message):
    spoil(directory / "latents-00000.safetensors")
    with pytest.raises(error, match=rf"latents-00000\.safetensors {message}"):
        LatentStore.open(directory)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"shape": [-2]},
        {"shape": "2"},
        {"counts": [4, True]},
        {"dtype": "int8"},
        {"dtype": ["float32"]},
        {"complete": "yes"},
        {"fingerprint": None},
        {"extra": 1},
    ],
)
def test_manifests_with_other_contents_are_refused(directory, change):
    path = directory / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=r"manifest\.json is not a manifest of latents\. Delete"):
        read_manifest(directory)


@pytest.mark.parametrize("text", [b"", b"[1]", b"\xff\xfe", b"{", b'{"format": "vinets.latents"}'])
def test_unreadable_manifests_are_refused(directory, text):
    (directory / "manifest.json").write_bytes(text)
    with pytest.raises(ValueError, match=r"manifest\.json is not a manifest of latents\. Delete"):
        read_manifest(directory)


def test_shards_without_a_manifest_are_not_overwritten(directory):
    (directory / "manifest.json").unlink()
    with pytest.raises(ValueError, match=r"holds latents without a manifest\.json"):
        read_manifest(directory)


def test_latents_of_another_shape_are_not_appended(directory):
    assert torch.equal(read_labels(directory, read_manifest(directory, "net")), LABELS)
    with pytest.raises(ValueError, match=r"float32 of shape \(2,\)\. Got float32 of shape \(3,\)"):
        append_latents(directory, "net", [(torch.zeros(1, 3), LABELS[:1])], SHARD)


def test_a_complete_store_without_shards_is_refused(tmp_path):
    manifest = {"format": "vinets.latents", "fingerprint": "net", "shape": [2], "counts": []}
    manifest |= {"dtype": "float32", "complete": True}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="no complete latents"):
        LatentStore.open(tmp_path)
