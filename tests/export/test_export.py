from __future__ import annotations

import builtins
import importlib
import json
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from vinets import build
from vinets.data import DataSplit, digits
from vinets.export import (
    EXPORT_FORMATS,
    ExportFormat,
    ExportReport,
    export_network,
    open_exported,
    suffixes,
)
from vinets.models import create_model, digits_cnn
from vinets.models.networks import ResNet
from vinets.models.origin import example_inputs
from vinets.networks import VINet
from vinets.training import fine_tune

DIGITS = digits()
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}


@pytest.fixture(scope="module")
def net() -> VINet:
    torch.manual_seed(0)
    return build(digits_cnn(), DIGITS.train, "relu3", linear_path=2, **SMALL)[0]


@pytest.fixture(scope="module")
def trained() -> VINet:
    """Products of forms that are right about most digits."""
    torch.manual_seed(0)
    options = {"head": "products", "parameters": 6000, "factors": 3, "progress": None}
    net = build(digits_cnn(), DIGITS.train, "relu2", **options)[0]
    fine_tune(net, DIGITS.train, epochs=6, trained="backbone", progress=None)
    return net.eval()


@pytest.fixture(scope="module")
def onnxruntime():
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    return pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def written(net, onnxruntime, tmp_path_factory) -> ExportReport:
    """A file of ONNX with the network."""
    return export_network(net, tmp_path_factory.mktemp("onnx") / "net.onnx")


@pytest.fixture(scope="module")
def program(net, tmp_path_factory) -> ExportReport:
    """A file of torch with the network."""
    return export_network(net, tmp_path_factory.mktemp("torch") / "net.pt2", batch_sizes=[3])


@pytest.fixture(scope="module")
def rounded(trained, onnxruntime, tmp_path_factory):
    """Writes the trained network in a format, once, and reports."""
    folder = tmp_path_factory.mktemp("rounded")
    options = {"data": DIGITS, "calibration": 100, "most_lost": 2}
    return cache(
        lambda format: export_network(
            trained, folder / format / "net.onnx", format=format, **options
        )
    )


def ends(session) -> list[list]:
    """Shapes of inputs and outputs."""
    return [end.shape for end in (*session.get_inputs(), *session.get_outputs())]


def test_an_onnx_file_computes_the_same_and_knows_its_classes(net, written, onnxruntime):
    assert written.format == "onnx" and written.opset >= 18
    assert written.largest_difference < 1e-5 and written.batch_sizes == (1, 2, 7)
    content = written.path.read_bytes()
    assert written.size == len(content)
    assert b".py" not in content and b"stack_trace" not in content  # nothing about the machine
    session = onnxruntime.InferenceSession(content)
    images = DIGITS.test.example(31)
    (logits,) = session.run(["logits"], {"input": images.numpy()})
    expected = net(images).detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())
    assert ends(session) == [["batch", 1, 8, 8], ["batch", 10]]
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["classes"]) == list("0123456789")
    assert json.loads(told["preprocessing"]) == net.record.preprocessing


def test_a_program_computes_the_same_and_knows_its_classes(net, program):
    assert program.format == "torch" and program.opset is None and program.batch_sizes == (3,)
    extra = {"metadata.json": ""}
    loaded = torch.export.load(program.path, extra_files=extra).module()
    images = DIGITS.test.example(31)
    torch.testing.assert_close(loaded(images), net(images), atol=1e-4, rtol=1e-4)
    told = json.loads(extra["metadata.json"])
    assert told.pop("classes") == list("0123456789")
    known = {"preprocessing": net.record.preprocessing, "data": net.record.data}
    assert told == known | {"writer": "vinets"}
    told = program.to_dict()
    assert json.loads(json.dumps(told)) == told and told["path"] == str(program.path)


def test_the_network_is_folded_and_not_changed_and_any_name_will_do(net, tmp_path):
    before = {k: t.clone() for k, t in net.state_dict().items()}
    path = tmp_path / "new" / "net.bin"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # none may leave
        report = export_network(net, path, format="torch", batch_sizes=[2])
    assert report.path == path and [*path.parent.iterdir()] == [path]
    assert all(torch.equal(t, before[k]) for k, t in net.state_dict().items())
    names = torch.export.load(path).state_dict
    assert not [name for name in names if ".norm." in name or "polynomials.scale" in name]


class Stubborn(nn.Module):
    """Cannot be exported: what it does depends on the data."""

    def __init__(self):
        super().__init__()
        self.flat, self.out = nn.Flatten(), nn.Linear(64, 10)

    def forward(self, x):
        x = self.flat(-x if float(x.sum()) > 0 else x)
        return self.out(x)


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_what_cannot_be_exported_says_so_and_leaves_nothing(tmp_path, name, onnxruntime):
    net = build(Stubborn(), DIGITS.train, "flat", **SMALL)[0]
    with pytest.raises(ValueError, match=r"^The network could not be exported to [^\n]+\.$"):
        export_network(net, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_extra(net, tmp_path, monkeypatch):
    real = importlib.import_module

    def without(name, *args):
        if name == "onnxscript":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args) if name not in EXPORT_FORMATS["onnx"].packages else builtins

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ModuleNotFoundError, match=r'onnxscript.*pip install "vinets\[onnx\]"'):
        export_network(net, tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("net.bin", {}, r"'path'.*ends in \.onnx or \.pt2.*format='onnx'"),
        ("net.pt2", {"format": "tflite"}, r"no export format 'tflite'.* onnx, onnx-float16"),
        ("net.pt2", {"opset": 18}, r"'opset'.*None unless the format is onnx"),
        ("net.onnx", {"opset": "x"}, r"'opset'.*positive integer"),
        ("net.pt2", {"batch_sizes": ()}, r"'batch_sizes'"),
        ("net.pt2", {"batch_sizes": (1, 0)}, r"'batch_sizes'.*positive integers"),
        ("net.pt2", {"batch_sizes": "12"}, r"'batch_sizes'"),
        ("", {"format": "torch"}, r"'path'.*name of a file"),
        ("net.onnx", {"most_lost": -1}, r"'most_lost'.*0, 100"),
        ("net.onnx", {"most_lost": True}, r"'most_lost'.*0, 100"),
        ("net.onnx", {"calibration": 0}, r"'calibration'.*positive integer"),
        ("net.onnx", {"format": "onnx-float16"}, r"accuracy has to be measured. Pass data"),
        ("net.onnx", {"format": "onnx-int8"}, r"accuracy has to be measured. Pass data"),
    ],
)
def test_bad_input_is_named(net, tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        export_network(net, tmp_path / name, **options)
    with pytest.raises(ValueError, match=r"'network'.*a CutNetwork.*Linear"):
        export_network(nn.Linear(2, 2), tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def scripted(monkeypatch):
    """A format of another distribution: traced TorchScript, which forgets the classes."""
    monkeypatch.setattr(EXPORT_FORMATS, "_entries", dict(EXPORT_FORMATS))

    class Scripted(ExportFormat):
        name = "script"
        title = "TorchScript"
        suffix = ".ts"

        def write(self, network, path, opset):
            torch.jit.trace(network, example_inputs(network.record.inputs, batch=2)).save(path)

        def runner(self, path):
            module = torch.jit.load(path)
            return lambda inputs: module(*inputs)

    return Scripted


def last_is_nan(logits):
    """NaN in the last batch that is compared, after others that agree."""
    return logits * (torch.nan if len(logits) == 7 else 1)


@pytest.mark.parametrize(("wrong", "by"), [(lambda y: 1.01 * y, "0.01"), (last_is_nan, "nan")])
def test_a_file_that_computes_something_else_is_not_kept(
    scripted, net, tmp_path, monkeypatch, wrong, by
):
    (tmp_path / "net.ts").write_text("the old one of vinets")
    inner = scripted.runner
    monkeypatch.setattr(
        scripted, "runner", lambda self, path: lambda inputs: wrong(inner(self, path)(inputs))
    )
    with pytest.raises(ValueError, match=rf"differs from the network by {by} of the largest logit"):
        export_network(net, tmp_path / "net.ts")
    assert [p.read_text() for p in tmp_path.iterdir()] == ["the old one of vinets"]


def test_a_format_from_outside_is_written_checked_and_named(scripted, net, tmp_path):
    report = export_network(net, tmp_path / "net.ts", batch_sizes=(1, 5))
    assert (report.format, report.opset) == ("script", None)
    images = DIGITS.test.example(5)
    torch.testing.assert_close(torch.jit.load(report.path)(images), net(images), atol=1e-4, rtol=0)
    assert suffixes() == {".onnx": "onnx", ".pt2": "torch", ".ts": "script"}
    with pytest.raises(ValueError, match=r"\.onnx or \.ts or \.pt2.*format='script'"):
        export_network(net, tmp_path / "net.bin")
    with pytest.raises(ValueError, match=r"There are: .*onnx, .*script"):
        export_network(net, tmp_path / "net.bin", format="bin")


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("\n  no room.\nadvice"), "no room"), (RuntimeError(), "RuntimeError")],
)
def test_the_first_line_of_the_last_cause_is_told(
    scripted, net, tmp_path, monkeypatch, error, told
):
    def fail(*_):
        raise OSError("try this, try that") from error

    monkeypatch.setattr(scripted, "write", fail)
    with pytest.raises(ValueError, match=rf"could not be exported to TorchScript: {told}\.$"):
        export_network(net, tmp_path / "net.ts")


def right(path) -> float:
    """Share of the digits that a file of ONNX is right about, by onnxruntime alone."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    images = DIGITS.test.example(len(DIGITS.test))
    (logits,) = session.run(None, {"input": images.numpy()})
    return float((logits.argmax(1) == DIGITS.test.labels.numpy()).mean())


@pytest.mark.parametrize(("format", "examples"), [("onnx-float16", 0), ("onnx-int8", 100)])
def test_what_rounds_is_smaller_and_as_accurate_as_it_says(
    rounded, onnxruntime, capfd, format, examples
):
    plain, report = rounded("onnx"), rounded(format)
    path = report.path
    assert capfd.readouterr() == ("", "")
    assert report.precision == format.removeprefix("onnx-")
    assert report.calibrated_on == examples and report.tested_on == len(DIGITS.test)
    assert report.size < 0.6 * plain.size
    assert 1e-5 < report.largest_difference < 0.2
    assert report.accuracy == pytest.approx(right(path))
    assert report.network_accuracy == plain.accuracy == pytest.approx(right(plain.path))
    assert report.network_accuracy > 0.7 and report.accuracy >= report.network_accuracy - 0.02
    assert open_exported(path).precision == report.precision
    session = onnxruntime.InferenceSession(path)
    both = (*session.get_inputs(), *session.get_outputs())
    assert {end.type for end in both} == {"tensor(float)"}
    assert ends(session) == [["batch", 1, 8, 8], ["batch", 10]]
    assert open_exported(path).record.classes == tuple("0123456789")
    assert list(path.parent.iterdir()) == [path]


def test_int8_does_not_round_a_product_between_its_factors(rounded):
    import onnx

    nodes = onnx.load(rounded("onnx-int8").path).graph.node
    maker = {name: node for node in nodes for name in node.output}

    def origin(name):
        """What makes a value, rounding aside; and whether it is rounded on the way."""
        node, rounded = maker.get(name), False
        while node is not None and node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            node, rounded = maker.get(node.input[0]), True
        return None if node is None else node.op_type, rounded

    factors = [origin(name) for node in nodes if node.op_type == "Mul" for name in node.input]
    assert ("Mul", False) in factors  # of three factors
    assert ("Mul", True) not in factors
    assert any(rounded for _, rounded in factors)


def test_a_file_that_loses_too_much_is_not_written_unless_asked(trained, tmp_path, onnxruntime):
    """Calibrated on black images, int8 has no room for a digit."""
    nothing = DIGITS.train.subset(torch.arange(64))
    nothing.images.zero_()
    split = DataSplit("digits", nothing, DIGITS.test)
    options = {"format": "onnx-int8", "data": split}
    with pytest.raises(ValueError, match=r"points are lost, more than 1\. Nothing .*--most-lost"):
        export_network(trained, tmp_path / "net.onnx", **options)
    assert list(tmp_path.iterdir()) == []
    report = export_network(trained, tmp_path / "net.onnx", most_lost=100, **options)
    assert report.accuracy < report.network_accuracy - 0.01
    assert report.accuracy == pytest.approx(right(tmp_path / "net.onnx"))


@pytest.mark.parametrize(
    "options", [{"data": DIGITS}, {"example": torch.zeros(3, 1, 8, 8)}], ids=["data", "example"]
)
@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_an_uncut_network_is_exported_too(tmp_path, onnxruntime, options, name):
    torch.manual_seed(0)
    whole = digits_cnn().eval()
    report = export_network(whole, tmp_path / name, **options)
    assert (report.accuracy is None) == ("data" not in options)
    assert report.largest_difference < 1e-5
    if name == "net.onnx":
        opened = open_exported(tmp_path / name)
        assert opened.record.classes == (DIGITS.test.classes if "data" in options else ())
        images = DIGITS.test.example(9)
        torch.testing.assert_close(opened(images), whole(images).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [lambda: ResNet([1, 1, 1], 10, maxpool=False), lambda: create_model("vit", 10, depth=1)],
    ids=["resnet", "vit"],
)
def test_the_batch_is_named_in_every_kind_of_network(tmp_path, onnxruntime, make):
    shape = (3, 32, 32)
    export_network(make(), tmp_path / "net.onnx", example=torch.zeros(1, *shape), batch_sizes=[2])
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    assert ends(session) == [["batch", *shape], ["batch", 10]]


class Windows(nn.Module):
    """Attention within windows, by a table that it looks up once; a branch that does not trace."""

    def __init__(self):
        super().__init__()
        self.table, self.cache = nn.Parameter(torch.randn(3)), {}
        self.last = nn.Linear(64, 10)
        self.attend = nn.Identity()

    def forward(self, x):
        if "scale" not in self.cache:
            self.cache["scale"] = self.table[torch.tensor([0, 2])].mean()
        windows = x.unflatten(2, (2, 4)).unflatten(4, (2, 4)).permute(0, 2, 4, 1, 3, 5)  # 6 axes
        values = windows.flatten(1, 2).flatten(-2)[:, :, None] * self.cache["scale"]  # 5 of them
        x = nn.functional.scaled_dot_product_attention(values, values, values)
        x = self.attend(x.flatten(1, -2))
        return self.last((-x if x.sum() > 0 else x).flatten(1))


def test_attention_in_windows_is_exported_and_caches_are_left_alone(tmp_path, onnxruntime):
    labels = torch.arange(40) % 10
    images = torch.randn(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    options = {"head": "pooled", "read": "mean_token", "progress": None}
    network, _ = build(Windows().eval(), (images, labels), "attend", **options)
    network.backbone.model.cache.clear()  # so that the exporter is the first to fill it
    report = export_network(network.eval(), tmp_path / "net.onnx", example=images[:1])
    assert report.largest_difference < 1e-5
    logits = network(images).detach()  # of numbers, and not of what the exporter computed with
    torch.testing.assert_close(open_exported(tmp_path / "net.onnx")(images), logits)


def test_maxima_see_the_zeros_that_a_padding_adds(tmp_path, onnxruntime):
    torch.manual_seed(0)
    pool = nn.Sequential(nn.ConstantPad2d(1, 0.0), nn.MaxPool2d(3, 2), nn.Flatten())
    network = nn.Sequential(nn.Conv2d(1, 4, 1), *pool, nn.Linear(64, 10)).eval()
    network[0].bias.data.fill_(-3.0)  # so that zeros are largest where they count
    for form, most in (("onnx", 1e-5), ("onnx-float16", 1e-2)):
        options = {"data": DIGITS, "format": form, "most_lost": 100.0}
        assert (
            export_network(network, tmp_path / f"{form}.onnx", **options).largest_difference < most
        )


def test_a_symbol_of_torch_is_renamed_wherever_it_stands(written):
    import onnx

    from vinets.export.formats import _name_batch

    graph = onnx.load(written.path).graph
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "s21"
    inner = onnx.helper.make_tensor_value_info("inner", 1, ["s21", "16*s21", "s211"])
    graph.value_info.append(inner)
    _name_batch(graph)
    ends = [value.type.tensor_type.shape.dim for value in (*graph.input, *graph.output)]
    assert {dims[0].dim_param for dims in ends} == {"batch"}
    dims = graph.value_info[-1].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims] == ["batch", "16*batch", "s211"]


def test_an_opened_file_uses_the_threads_of_torch(net, written, onnxruntime, monkeypatch):
    started = []
    real = onnxruntime.InferenceSession

    def session(content, options, **more):
        started.append(options.intra_op_num_threads)
        return real(content, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        opened = open_exported(written.path)
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            opened(DIGITS.test.example(2))
    finally:
        torch.set_num_threads(before)
    assert started == [1, 2]
    assert (opened.runtime, opened.precision) == ("onnxruntime", "float32")
    assert opened.record.inputs == net.record.inputs


def put_outside(tensor) -> None:
    """Let a tensor be what another file holds."""
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")


def outside(model) -> None:
    put_outside(max(model.graph.initializer, key=lambda one: len(one.raw_data)))


def outside_in_a_node(model) -> None:
    import onnx

    value = onnx.helper.make_tensor("v", 1, [1], [0.0])
    node = onnx.helper.make_node("Constant", [], ["unused"], value=value)
    put_outside(node.attribute[0].t)
    model.graph.node.append(node)


def noted(key, value):
    def change(model) -> None:
        next(one for one in model.metadata_props if one.key == key).value = value

    return change


def unknown_operator(model) -> None:
    model.graph.node[0].op_type = "Surprise"


def any_height(model) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (outside, "is a link out of .*, which is not followed"),
        (outside_in_a_node, "is a link out of .*, which is not followed"),
        (noted("classes", "{"), "notes on classes or preprocessing are broken"),
        (noted("classes", "[1]"), "must be a text"),
        (noted("preprocessing", "[]"), "notes on classes or preprocessing are broken"),
        (unknown_operator, "Surprise"),
        (any_height, "has axes of no size"),
    ],
)
def test_a_strange_file_is_refused_in_one_sentence(written, tmp_path, monkeypatch, change, message):
    import onnx

    monkeypatch.chdir(tmp_path)
    (tmp_path.parent / "secret.bin").write_bytes(bytes(1 << 20))  # it would be found there
    model = onnx.load(written.path)
    change(model)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=rf"^[^\n]*net\.onnx cannot be run: [^\n]*{message}"):
        open_exported(tmp_path / "net.onnx")


def test_broken_files_and_programs_are_refused_in_one_sentence(tmp_path, onnxruntime, program):
    for content in (b"", b"junk", bytes(1000)):
        (tmp_path / "net.onnx").write_bytes(content)
        with pytest.raises(ValueError, match=r"net\.onnx cannot be run: [^\n]+\.$"):
            open_exported(tmp_path / "net.onnx")
    with pytest.raises(ValueError, match=r"net\.pt2 is not opened, for .* may hold code"):
        open_exported(program.path)
