"""Files of ``torch.save`` as people have them, and as somebody might craft them."""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
import tarfile
import warnings
import zipfile
from argparse import Namespace

import pytest
import torch

from vinets.core.checks import DoubtWarning
from vinets.models import digits_cnn, load_weights
from vinets.models import torch_files as files

NET = digits_cnn()
STATE = NET.state_dict()
# What PyTorch 0.4 wrote in parallel: without counts of batches, and not in an archive.
PARALLEL = {f"module.{k}": v for k, v in STATE.items() if "num_batches_tracked" not in k}
OTHERS = {name: value + 1 for name, value in STATE.items()}
OPTIMISER = torch.optim.SGD(NET.parameters(), 0.1)
SCHEDULE = torch.optim.lr_scheduler.MultiStepLR(OPTIMISER, [2]).state_dict()  # it has a Counter


def loaded(path, content, **options):
    """Save, load into a network with other weights, and return it with what was warned of."""
    torch.save(content, path, **options)
    net = digits_cnn()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        load_weights(net, path)
    assert all(issubclass(one.category, DoubtWarning) for one in said)
    return net, " ".join(str(one.message) for one in said)


@pytest.mark.parametrize("suffix", [".pth", ".PT", ".bin", ".ckpt", ".pth.tar", ".th"])
@pytest.mark.parametrize("archive", [True, False])
def test_a_published_checkpoint_is_read(tmp_path, suffix, archive):
    content = {"state_dict": PARALLEL, "best_prec1": torch.tensor(93.39)}
    path = tmp_path / f"w{suffix}"
    net, said = loaded(path, content, _use_new_zipfile_serialization=archive)
    assert all(torch.equal(net.state_dict()[name], value) for name, value in STATE.items())
    assert said == f"The weights are 'state_dict' of {path}."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (STATE, None),
        (STATE | {"total_ops": torch.zeros(1), "fc.total_params": torch.zeros(1)}, None),
        (STATE | {"extra": 1.0}, None),
        ({"net": STATE, "optimizer": OPTIMISER.state_dict(), "schedule": SCHEDULE}, "are 'net' of"),
        ({"model": STATE, "args": Namespace(lr=0.1)}, "are 'model' of"),
        ({"ema": OTHERS, "model": STATE}, r"and not 'ema' \(averages over a training\)\.$"),
        ({"model_ema": STATE, "epoch": torch.tensor(3)}, r"'model_ema' .* \(averages over"),
    ],
)
def test_weights_are_found_among_other_entries(tmp_path, content, said):
    net, told = loaded(tmp_path / "w.pth", content)
    assert torch.equal(net.fc.weight, NET.fc.weight)
    assert bool(told) == (said is not None) and re.search(said or "", told)


def test_half_precision_becomes_that_of_the_network(tmp_path):
    net, _ = loaded(tmp_path / "w.pth", {name: value.half() for name, value in STATE.items()})
    assert net.fc.weight.dtype == torch.float32
    assert torch.equal(net.fc.weight, NET.fc.weight.half().float())


def tar(path):
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())


def script(path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))


def half(path):
    torch.save(STATE, path)
    path.write_bytes(path.read_bytes()[:3000])


def rewritten(path, change, how=zipfile.ZIP_STORED):
    """Save eight numbers, and change the files in their archive."""
    torch.save({"w": torch.arange(8.0)}, path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def longer(path):
    """Claim a storage, and a tensor in it, of a gigabyte."""
    many = b"J\xff\xff\xff\x0f"
    changes = (b"K\x08t", many + b"t"), (b"K\x08\x85", many + b"\x85")
    rewritten(path, lambda name, part: part.replace(*changes[0]).replace(*changes[1]))


def encoding(path):
    """Double the length of a text by encoding it again and again."""
    texts = pickle.PROTO + b"\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R."
    rewritten(path, lambda name, part: texts if name.endswith("data.pkl") else part)


REFUSED = {
    "a tar archive": (tar, "or a tar archive of the first PyTorch"),
    "no file of torch": (b"words", "is no file of torch.save"),
    "nothing": (b"", "is no file of torch.save"),
    "a plain pickle": (pickle.dumps({}), "cannot be read as weights"),
    "a script": (script, "one of torch.jit is not read"),
    "the first half": (half, "cannot be read as weights"),
    "compressed": (
        lambda path: rewritten(path, lambda name, part: part, zipfile.ZIP_DEFLATED),
        "is no archive of torch.save",
    ),
    "longer than the file": (longer, "cannot be read as weights"),
    "encodings": (encoding, "an object of _codecs.encode, which would run code"),
    "a network of old torch": (
        lambda path: torch.save(NET, path, _use_new_zipfile_serialization=False),
        "DigitsNet, which would run code",
    ),
    "a network": (NET, r"an object of [\w.]+\.DigitsNet"),
    "a tensor": (torch.ones(3), "Got Tensor instead"),
    "other entries": ({"a": 1, "b": STATE}, "Got a, b instead"),
    "complex": ({"a": torch.ones(2) * 1j}, "Got a instead"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_file_of_weights_is_refused_in_one_sentence(tmp_path, case):
    content, message = REFUSED[case]
    path, net = tmp_path / "w.pth", digits_cnn()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif inspect.isfunction(content):
        content(path)
    else:
        torch.save(content, path)
    before = net.fc.weight.clone()
    with pytest.raises(ValueError, match=message) as error:
        load_weights(net, path)
    assert str(error.value).startswith(str(path))
    assert str(error.value).endswith('alone: torch.save(model.state_dict(), "weights.pth").')
    assert torch.equal(net.fc.weight, before)


@pytest.mark.parametrize("limit", ["MAX_ENTRIES", "MAX_PICKLE_BYTES"])
def test_entries_and_values_are_limited(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(files, limit, 20)
    with pytest.raises(ValueError, match="tensors, or too many other values"):
        loaded(tmp_path / "w.pth", STATE)


def test_pipes_are_no_weights_and_in_a_folder_of_ours_pickles_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.pth")
    with pytest.raises(ValueError, match="regular file"):
        load_weights(NET, tmp_path / "pipe.pth")
    torch.save(STATE, tmp_path / "w.pth")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        load_weights(NET, tmp_path / "w.pth", inside=tmp_path)
