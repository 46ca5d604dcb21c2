"""Networks in ONNX files: converted, compared, recorded, and refused."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets.latent.cut import cut_points, truncate
from vinets.models import VisionTransformer, create_model, digits_cnn, rebuild, source_of
from vinets.models.libraries import onnx as files
from vinets.models.libraries.torchvision import import_torchvision
from vinets.models.records import forms_of

NEEDED = ("onnx", "onnxscript", "onnxruntime", "torchvision", "onnx2torch")
if any(find_spec(name) is None for name in NEEDED):
    pytest.skip("needs the extra onnx", allow_module_level=True)
import_torchvision()  # which onnx2torch imports


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    monkeypatch.setattr(files, "_named", {})


class ClassToken(nn.Module):
    """Tokens of patches behind a token of the class, with products, slices and a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.patches = nn.Parameter(torch.randn(1, 1, 6)), nn.Conv2d(1, 6, 4, 4)
        self.inner = nn.Linear(6, 18)
        self.norm, self.fc = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)
        q, k, v = self.inner(F.gelu(x)).split(6, -1)
        x = x + (q @ k.transpose(1, 2)).softmax(-1) @ v
        return self.fc(self.norm(x)[:, 0] + x[:, 1:].mean(1))


def normalised() -> nn.Module:
    """A batch normalisation that no convolution takes in, behind several outputs of a split."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.BatchNorm1d(8))
    net[3].running_mean.normal_()
    return net.append(nn.Linear(8, 3))


NETWORKS = {
    "digits": digits_cnn,
    "normalised": normalised,
    "token": ClassToken,
    "transformer": lambda: VisionTransformer(3, 1, 8, 4, 12, 2, 2),
}


def exported(kind, path, *, dynamo=True, batch=None):
    """A network in eval mode, written by one of the exporters of torch, for one size or any."""
    torch.manual_seed(0)
    net, x = NETWORKS[kind]().eval(), torch.randn(batch or 2, 1, 8, 8)
    axes = {"dynamic_shapes": ({0: "batch"},)} if dynamo else {"dynamic_axes": {"x": {0: "batch"}}}
    axes = {} if batch else axes
    torch.onnx.export(net, (x,), path, input_names=["x"], dynamo=dynamo, verbose=False, **axes)
    return net


@pytest.fixture
def path(tmp_path):
    return tmp_path / "net.onnx"


@pytest.mark.filterwarnings("ignore")  # of the exporters
@pytest.mark.parametrize("batch", [None, 1], ids=["any", "one"])
@pytest.mark.parametrize("dynamo", [True, False], ids=["dynamo", "old"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_network_of_a_file_computes_the_same_is_cut_exported_and_trained(
    kind, dynamo, batch, path
):
    net = exported(kind, path, dynamo=dynamo, batch=batch)
    same, x = create_model(str(path)).eval(), torch.randn(5, 1, 8, 8)
    torch.testing.assert_close(same(x), net(x), rtol=1e-4, atol=1e-5)
    middle = next(p for p in cut_points(same, x) if p.removed < 1)
    assert truncate(same, middle.name)(x).shape == (5, *middle.shape)
    program = torch.export.export(same, (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.testing.assert_close(program.module()(x[:3]), net(x[:3]), rtol=1e-4, atol=1e-5)
    optimizer = torch.optim.Adam(same.train().parameters(), 1e-2)
    losses = []
    for _ in range(20):
        losses.append(F.cross_entropy(same(x), torch.tensor([0, 1, 2, 0, 1])))
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert all(p.grad is not None for p in same.parameters())
    assert losses[-1] < losses[0] / 2
    assert any(isinstance(m, nn.BatchNorm1d) for m in same.modules()) == (kind == "normalised")


def test_a_copy_knows_its_file_and_another_process_has_to_name_it(path, tmp_path):
    exported("digits", path)
    model = create_model(str(path))
    source = source_of(copy.deepcopy(model))
    assert source is not None and source["name"].endswith(source_of(model)["name"][-17:])
    assert forms_of(rebuild(source)) == forms_of(model)
    files._named.clear()
    with pytest.raises(ValueError, match=r"write FOLDER@net\.onnx for the folder"):
        rebuild(source)


@pytest.mark.parametrize("name", ["net.onnx", "../net.onnx:0123456789abcdef", "x.onnx:12"])
def test_a_record_that_names_no_file_with_a_digest_is_refused(name):
    with pytest.raises(ValueError, match=r"FILE\.onnx:DIGEST"):
        rebuild({"library": "onnx", "name": name, "options": {}})


def custom(model) -> None:
    node = model.graph.node[0]
    node.domain, node.op_type = "com.microsoft", "FusedConv"
    model.opset_import.add(domain="com.microsoft", version=1)


def single(model) -> None:
    """Let the shape of one input, 128 numbers, be in the graph in another way."""
    import onnx

    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    ((place, node),) = [one for one in enumerate(model.graph.node) if one[1].op_type == "Gemm"]
    shape = onnx.numpy_helper.from_array(np.array([128, 1]), "column")
    model.graph.initializer.append(shape)
    first = onnx.helper.make_node("Reshape", [node.input[0], "column"], ["c"])
    node.input[0] = "r"
    model.graph.node.insert(place, onnx.helper.make_node("Transpose", ["c"], ["r"], perm=[1, 0]))
    model.graph.node.insert(place, first)
    del model.graph.value_info[:]


def axis_of(size, axis=2):
    def change(model) -> None:
        dim = model.graph.input[0].type.tensor_type.shape.dim[axis]
        setattr(dim, "dim_param" if isinstance(size, str) else "dim_value", size)
        del model.graph.value_info[:]

    return change


def wrong(model) -> None:
    model.graph.node[0].input[0] = "nothing"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (custom, "operators of com.microsoft"),
        (single, "takes one input at a time; export it with a batch of any size"),
        *((axis_of(one), "must have 1 to .* values, of a fixed shape") for one in ("h", 1 << 40)),
        (axis_of(4, 0), "made for several inputs at once"),
        (wrong, "does not become a network of torch: .*nothing"),
    ],
)
def test_what_cannot_be_converted_is_refused_in_one_sentence(change, told, path):
    import onnx

    exported("digits", path)
    model = onnx.load(path)
    change(model)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=rf"^[^\n]*{told}[^\n]*\.$"):
        create_model(str(path))


def test_a_conversion_that_computes_something_else_is_refused(path, monkeypatch):
    import onnx2torch

    def convert(*args, real=onnx2torch.convert, **options):
        network = real(*args, **options)
        next(network.parameters()).data *= 1.01
        return network

    exported("digits", path)
    monkeypatch.setattr(onnx2torch, "convert", convert)
    with pytest.raises(ValueError, match=r"differs from onnxruntime by \d\.\de-0\d of the largest"):
        create_model(str(path))


@pytest.mark.parametrize("location", ["net.onnx.data", "../net.onnx.data"])
def test_weights_lie_in_the_folder_of_the_file_or_are_not_read(location, path):
    import onnx

    net, x = exported("digits", path), torch.randn(3, 1, 8, 8)
    model = onnx.load(path)  # with all weights
    onnx.save(model, path, save_as_external_data=True, location="net.onnx.data")
    first = create_model(str(path))
    torch.testing.assert_close(first(x), net(x), rtol=1e-4, atol=1e-5)
    if location.startswith(".."):
        outer = path.parent / "inner" / "net.onnx"
        outer.parent.mkdir()
        outer.write_bytes(path.read_bytes().replace(b"net.onnx.data", b"../n.onnx.dat"))
        (path.parent / "n.onnx.dat").write_bytes((path.parent / "net.onnx.data").read_bytes())
        with pytest.raises(ValueError, match="is a link out of"):
            create_model(str(outer))
        return
    data = path.with_name(location)
    data.write_bytes(bytes(byte ^ 1 for byte in data.read_bytes()))
    assert not create_model(str(path))(x).equal(first(x))  # the same graph with other weights
    data.write_bytes(data.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"ask for more bytes than net\.onnx\.data has"):
        create_model(str(path))
