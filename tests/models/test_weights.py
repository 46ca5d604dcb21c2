from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from vinets.models import digits_cnn, load_weights, save_weights


def test_weights_come_back_exactly(tmp_path):
    net, other = digits_cnn(), digits_cnn()
    net(torch.randn(4, 1, 8, 8))  # moves the running statistics
    path = tmp_path / "new" / "net.safetensors"
    save_weights(net, path)
    load_weights(other, path)
    for name, value in net.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name


def test_weights_take_the_dtypes_of_the_network(tmp_path):
    net = digits_cnn().double()
    save_weights(net, tmp_path / "w.safetensors")
    half = digits_cnn().half()
    load_weights(half, tmp_path / "w.safetensors")
    assert half.conv1.weight.dtype == torch.float16
    assert half.bn1.num_batches_tracked.dtype == torch.int64
    torch.testing.assert_close(half.fc.weight, net.fc.weight.half())


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)
        self.last.weight = self.first.weight


def test_of_tied_weights_one_name_is_enough(tmp_path):
    net, other = Tied(), Tied()
    save_weights(net, tmp_path / "both.safetensors")
    tensors = load_file(tmp_path / "both.safetensors")
    assert set(tensors) == set(net.state_dict())
    del tensors["last.weight"]
    save_file(tensors, tmp_path / "one.safetensors")
    load_weights(other, tmp_path / "one.safetensors")
    assert torch.equal(other.last.weight, net.first.weight)


def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path):
    tensors = digits_cnn(7).state_dict()
    del tensors["conv1.weight"]
    save_file({**tensors, "extra": torch.zeros(1)}, tmp_path / "w.safetensors")
    net = digits_cnn(10)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    told = (
        r"1 missing \(conv1\.weight\), 1 unexpected \(extra\), 2 of another shape \(fc\.bias \(7,\)"
    )
    with pytest.raises(ValueError, match=told):
        load_weights(net, tmp_path / "w.safetensors")
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_long_lists_of_names_are_cut_short(tmp_path):
    save_file({}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"26 missing \(.{,80}, \.\.\.\) instead"):
        load_weights(digits_cnn(), tmp_path / "w.safetensors")


@pytest.mark.parametrize("suffix", [".pt", ".PTH", ".bin", ".ckpt"])
def test_pickles_are_refused_unread(tmp_path, suffix):
    path = tmp_path / f"w{suffix}"  # does not even exist
    with pytest.raises(ValueError, match=r"must be a safetensors file.*save_file\(torch\.load"):
        load_weights(digits_cnn(), path)
