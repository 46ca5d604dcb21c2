from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from vinets.models import digits_cnn, load_weights, save_weights


def test_weights_come_back_exactly(tmp_path):
    net, other = digits_cnn(), digits_cnn()
    net(torch.randn(4, 1, 8, 8))  # moves the running statistics
    save_weights(net, tmp_path / "new" / "net.safetensors")
    load_weights(other, tmp_path / "new" / "net.safetensors")
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
    told = r"1 missing \(conv1\.weight\), 1 unexpected \(extra\), 2 of another shape \(fc\.weight "
    with pytest.raises(ValueError, match=told):
        load_weights(net, tmp_path / "w.safetensors")
    save_file({}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"22 missing \(.{,80}, \.\.\.\) instead"):  # cut short
        load_weights(net, tmp_path / "w.safetensors")
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


WRAPPERS = ["module.", "_orig_mod.module.", "module.model._orig_mod."]


@pytest.mark.parametrize(
    ("old", "new"), [*(("", name) for name in WRAPPERS), ("features.", "features.module.")]
)
def test_wrappers_of_all_or_a_part_do_not_matter_and_names_that_fit_stay(tmp_path, old, new):
    net = nn.ModuleDict({"model": nn.Linear(2, 2), "features": nn.Sequential(nn.Linear(3, 3))})
    stored = {name: value + 1 for name, value in net.state_dict().items()}
    save_file({k.replace(old, new, 1): v for k, v in stored.items()}, tmp_path / "w.safetensors")
    load_weights(net, tmp_path / "w.safetensors")
    assert all(torch.equal(value, stored[name]) for name, value in net.state_dict().items())


def test_a_name_that_may_be_meant_is_told_by_its_shape(tmp_path):
    state = digits_cnn().state_dict()
    renamed = {name.replace("fc.", "linear."): value for name, value in state.items()}
    save_file({**renamed, "fd.weight": torch.zeros(1)}, tmp_path / "w.safetensors")
    told = r"2 missing \(fc\.weight, fc\.bias\).* The file has linear\.weight of the shape of fc\."
    with pytest.raises(ValueError, match=told):
        load_weights(digits_cnn(), tmp_path / "w.safetensors")


def test_a_head_for_other_classes_is_named_as_that(tmp_path):
    save_file(digits_cnn(7).state_dict(), tmp_path / "w.safetensors")
    told = r"fc\.weight \(7, 128\) .*Its head is for 7 classes, .* network for 10: .*num_classes=7"
    with pytest.raises(ValueError, match=told):
        load_weights(digits_cnn(10), tmp_path / "w.safetensors")
    wider = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4)).state_dict()
    save_file(wider, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="4 of another shape") as error:
        load_weights(nn.Sequential(nn.Linear(2, 5), nn.Linear(5, 6)), tmp_path / "w.safetensors")
    assert "Its head" not in str(error.value)
