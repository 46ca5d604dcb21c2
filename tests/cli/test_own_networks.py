"""A network in a file of the user's own, and options of its constructor."""

from __future__ import annotations

import importlib
import shutil
import sys

import pytest
import torch
from PIL import Image
from program import run
from torch.utils.data import DataLoader, TensorDataset

from vinets import build
from vinets.cli.shared import ReadingOptions
from vinets.core.files import read_json
from vinets.core.plain import from_plain
from vinets.data import digits
from vinets.measure import evaluate
from vinets.models import create_model, rebuild, save_weights, source_of, use_file
from vinets.models.libraries import file as files
from vinets.networks import CutNetwork
from vinets.networks.open import open_network
from vinets.runs.setup import SetupFiles
from vinets.search import SearchResult

SOURCE = """
from pathlib import Path
from torch import nn
from {sizes} import WIDTH

Path(__file__).with_name("ran").touch()

class MyNet(nn.Module):
    def __init__(self, num_classes=10, width=WIDTH, act="relu"):
        super().__init__()
        self.conv = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU() if act == "relu" else nn.GELU()
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(9 * width, num_classes)

    def forward(self, x):
        return self.fc(self.pool(self.relu(self.norm(self.conv(x)))).flatten(1))

def three():
    return MyNet(3)

def nothing():
    return 3
"""


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    """Every command starts in a process where no file was named yet."""
    monkeypatch.setattr(files, "_named", {})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "widths_of_my_net.py").write_text("WIDTH = 8\n")
    (folder / "my-net.py").write_text(SOURCE.format(sizes="widths_of_my_net"))
    return folder


@pytest.fixture(scope="module")
def net(folder):
    return f"{folder / 'my-net.py'}:MyNet"


@pytest.fixture(scope="module")
def trained(folder, call, net):
    """Trained by the command line, too."""
    out = folder / "base"
    options = ["--data", "digits", "--epochs", 4, "--quiet", "--out", out]
    call("train", "--model", net, *options)
    return out


@pytest.fixture(scope="module")
def made(folder, call, net, trained, build_options):
    """A VI-Net, from the file and its weights."""
    out = folder / "vinet"
    options = [*build_options, "--cut", "relu"]
    call("build", net, "--weights", trained / "weights.safetensors", *options, "--out", out)
    return out


def test_what_was_built_of_a_file_is_used_like_any_other(call, made, net, pictures, tmp_path):
    again = f"{made}@{net}"
    results = call("evaluate", again, "--data", "digits", "--json").json()
    (ours,) = read_json(made / "results.json")["networks"].values()
    assert results["accuracy"] == pytest.approx(ours["accuracy"], abs=1e-3)
    file = tmp_path / "net.pt2"
    assert call("export", again, "--out", file, "--json").json()["path"] == str(file)
    (told,) = call("predict", again, pictures / "0", "--json").json()["predictions"]
    assert len(told["classes"]) == 3
    options = ["--batch-sizes", 2, "--seconds", 0.01, "--repeats", 2, "--json"]
    both = call("bench", net, again, *options).json()["networks"]
    assert [one["name"] for one in both] == [net, "vinet"]


def test_a_trained_folder_is_cut_and_studied(call, trained, made, net):
    uncut = f"{trained}@{net}"
    names = [p["name"] for p in call("cuts", uncut, "--json").json()["points"]]
    assert names == ["conv", "norm", "relu", "pool", "fc"]
    by_name = call("cuts", net, "--shape", "1,8,8", "--json").json()["points"]
    assert [p["name"] for p in by_name] == names
    call("theory", uncut, "--vinet", made, "--json")


def test_opening_a_folder_runs_no_file(refused, made, trained, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)  # where a file of that name lies
    (folder / "ran").unlink()
    for saved, command in ((made, "export"), (made, "evaluate"), (trained, "evaluate")):
        more = ["--out", tmp_path / "x.onnx"] if command == "export" else ["--data", "digits"]
        told = refused(command, saved, *more)
        assert "a file is run only if you name it: write FOLDER@my-net.py:MyNet" in told
    assert not (folder / "ran").exists()


def test_a_name_in_the_file_that_was_not_given_is_not_called(refused, trained, net):
    told = refused("evaluate", f"{trained}@{net.replace('MyNet', 'three')}", "--data", "digits")
    assert "This network is my-net.py:MyNet" in told and "three was named for it" in told


def test_file_and_class_may_be_renamed(call, made, trained, net, folder):
    text = (folder / "my-net.py").read_text().replace("MyNet", "Better")
    (folder / "renamed.py").write_text(text)
    for saved in (made, trained):
        losses = set()
        for name in (f"{folder / 'renamed.py'}:Better", net):
            found = call("evaluate", f"{saved}@{name}", "--data", "digits", "--json").json()
            losses.add(found["loss"])
            files._named.clear()
        assert len(losses) == 1


def test_python_opens_it_once_the_file_is_named(made, net):
    with pytest.raises(ValueError, match="a file is run only if you name it"):
        CutNetwork.from_pretrained(made)
    assert use_file(net) == "my-net.py:MyNet"
    assert CutNetwork.from_pretrained(made).record.source["options"] == {"num_classes": 10}


def test_a_network_may_choose_its_outputs_itself(refused, folder, tmp_path):
    spec = f"{folder / 'my-net.py'}:three"
    model = create_model(spec, 10)
    assert model.fc.out_features == 3
    save_weights(model, tmp_path / "w.safetensors")
    told = refused("evaluate", spec, "--weights", tmp_path / "w.safetensors", "--data", "digits")
    assert "has 3 outputs, and the data has 10 classes" in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("my-net.py:Mynet", "has no class or function Mynet. It has MyNet"),
        ("no.py:MyNet", "does not exist"),
        ("my-net.py:nothing", "it gave int, and a torch.nn.Module is wanted"),
        ("broken.py:MyNet", "could not be run: ZeroDivisionError: division by zero"),
        ("my-net.py", "my-net.py:CLASS"),
        ("wide.py:Wide", "required argument: 'width'. Its arguments are width: give them defaults"),
    ],
)
def test_files_that_make_no_network_are_told(refused, folder, name, told):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "wide.py").write_text("class Wide:\n    def __init__(self, width): ...\n")
    assert told in refused("cuts", folder / name, "--shape", "1,8,8")


def test_a_file_that_changed_runs_again(folder, tmp_path):
    copy = tmp_path / "my-net.py"
    shutil.copy(folder / "my-net.py", copy)
    assert create_model(f"{copy}:MyNet").fc.in_features == 72
    copy.write_text(copy.read_text().replace("width=WIDTH", "width=16"))
    assert create_model(f"{copy}:MyNet").fc.in_features == 144


def test_a_network_of_a_file_is_compressed(call, net, trained, tmp_path):
    out = tmp_path / "a small one"
    options = ["--data", "digits", "--budget", "params=80%", "--no-int8", "--out", out]
    small = ["--epochs", 1, "--cuts", 1, "--limit", 200]
    done = call("compress", net, "--weights", trained / "weights.safetensors", *options, *small)
    assert f"Next: vinets export '{out}@{net}' --out small.onnx" in done.err
    found = from_plain(SearchResult, read_json(out / "results.json"))
    assert (out / "report.html").is_file() and found.met
    right = call("evaluate", f"{out}@{net}", "--data", "digits", "--json").json()["accuracy"]
    halves = found.choice.accuracy + found.choice.test  # what the search found on both
    assert 2 * right == pytest.approx(halves, abs=0.01)


def test_a_list_of_trials_names_no_code(net, trained, folder):
    (folder / "ran").unlink(missing_ok=True)
    files = SetupFiles(net, str(trained / "weights.safetensors"), "digits")
    with pytest.raises(ValueError, match="may not name a file"):
        files.open("net", torch.device("cpu"))
    assert not (folder / "ran").exists()


def test_options_of_a_record_are_no_paths(net):
    use_file(net)
    record = {"library": "file", "name": "my-net.py:MyNet", "options": {"num_classes": 4}}
    assert rebuild(record).fc.out_features == 4
    for text in ("w.pt", ["w.pt"], {"path": "w.pt"}):
        with pytest.raises(ValueError, match="are small numbers, words, and lists"):
            rebuild({**record, "options": {"num_classes": text}})


# --- options of its constructor ---------------------------------------------------------------

OPTIONS = ("--model-option", "width=6", "--model-option", "act=gelu")


@pytest.fixture(scope="module")
def narrow(folder, call, net):
    """The network with other options, trained, and its weights as PyTorch 0.4 saved them."""
    out, path = folder / "narrow", folder / "model_best.pth.tar"
    words = ["--data", "digits", "--epochs", 1, "--quiet", "--out", out]
    call("train", "--model", net, *OPTIONS, *words)
    state = open_network(f"{out}@{net}").network.state_dict()
    kept = {f"module.{k}": v for k, v in state.items() if "num_batches_tracked" not in k}
    content = {"state_dict": kept, "best_prec1": 93.0}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return out, path


def test_a_trained_folder_and_a_checkpoint_are_one_network(call, narrow, net):
    base, weights = narrow
    opened = open_network(f"{base}@{net}").network
    assert source_of(opened)["options"] == {"num_classes": 10, "width": 6, "act": "gelu"}
    folder = call("evaluate", f"{base}@{net}", "--data", "digits", "--json").json()
    done = call("evaluate", net, *OPTIONS, "--weights", weights, "--data", "digits", "--json")
    assert done.json()["accuracy"] == folder["accuracy"]
    assert f"Warning: The weights are 'state_dict' of {weights}." in done.err


def test_what_is_built_belongs_to_its_options(call, net, narrow, build_options, tmp_path):
    options = [*build_options, "--cut", "relu", "--quiet", "--out", tmp_path / "out"]
    line = ["build", net, "--weights", narrow[1], *options]
    call(*line, *OPTIONS)
    kept = read_json(tmp_path / "out" / "config.json")["record"]["source"]["options"]
    assert kept == {"num_classes": 10, "width": 6, "act": "gelu"}
    call("build", "--config", tmp_path / "out" / "run.toml")
    call("evaluate", f"{tmp_path / 'out'}@{net}", "--data", "digits")
    assert "with other options" in run(*line, *OPTIONS[:3], "act=relu").err.splitlines()[-1]


def test_options_that_do_not_fit_are_refused_in_one_sentence(refused, net, narrow):
    words = ["cuts", net, "--shape", "1,8,8", "--model-option"]
    assert "--model-option must be KEY=VALUE. Got ['width'] instead." in refused(*words, "width")
    told = run(*words, "width=4", "--weights", narrow[1]).err.splitlines()[-1]
    assert told.startswith("Error: ") and "does not fit this MyNet" in told


def test_values_are_numbers_words_and_lists_and_are_written_again():
    written = ("8", "true", "False", "0.5", "gelu", "[1, 2]", "None", "a=b")
    pairs = tuple(f"{key}={text}" for key, text in zip("abcdefgh", written, strict=True))
    reading = ReadingOptions(model_option=pairs)
    values = [*reading.keywords()["options"].values()]
    assert values == [8, True, False, 0.5, "gelu", [1, 2], None, "a=b"]
    assert reading.words()[:4] == ("--model-option", "a=8", "--model-option", "b=true")


def test_networks_keep_the_neighbours_of_their_own_folders(tmp_path):
    for folder, width in (("a", 5), ("b", 9)):
        (tmp_path / folder / "parts").mkdir(parents=True)
        (tmp_path / folder / "sizes.py").write_text(f"WIDTH = {width}\n")
        (tmp_path / folder / "parts" / "__init__.py").write_text("")
        (tmp_path / folder / "parts" / "layers.py").write_text(
            "from sizes import WIDTH\nfrom torch import nn\n"
            "def last(count):\n    return nn.Linear(WIDTH, count)\n"
        )
        (tmp_path / folder / "net.py").write_text(
            "from parts.layers import last\ndef net(num_classes=3):\n    return last(num_classes)\n"
        )
    made = [create_model(f"{tmp_path / one}/net.py:net").in_features for one in "aba"]
    assert made == [5, 9, 5]
    (tmp_path / "a" / "sizes.py").write_text("WIDTH = 7\n")
    assert create_model(f"{tmp_path}/a/net.py:net").in_features == 7


@pytest.fixture
def from_python(tmp_path, monkeypatch):
    """A network of an own class that Python saved, on a loader, and the folder of both."""
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv, self.relu = nn.Conv2d(1, 6, 3), nn.ReLU()\n"
        "        self.fc = nn.Linear(216, 10)\n"
        "    def forward(self, x: 'Tensor') -> 'Tensor':\n"
        "        return self.fc(self.relu(self.conv(x)).flatten(1))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    uncut = importlib.import_module("net").Net()
    sys.modules.pop("net")
    images, labels = next(iter(digits().train.batches(200)))
    loader = DataLoader(TensorDataset(images, labels), batch_size=50)
    net, _ = build(uncut, loader, "relu", head="products", progress=None)
    net.save_pretrained(tmp_path / "saved")
    return net.eval(), tmp_path


def test_a_network_saved_from_python_opens_in_the_shell(call, refused, from_python):
    net, folder = from_python
    named = f"{folder}/saved@{folder}/net.py:Net"
    told = call("evaluate", named, "--data", "digits", "--json").json()
    assert told["accuracy"] == pytest.approx(evaluate(net, digits().test).accuracy)
    assert "@path/file.py:CLASS" in refused("evaluate", folder / "saved", "--data", "digits")
    call("bench", named, "--repeats", 1, "--batch-sizes", 1)


def test_a_network_made_on_a_loader_is_told_how_it_reads_images(call, refused, from_python):
    net, folder = from_python
    named, image = f"{folder}/saved@{folder}/net.py:Net", folder / "8.png"
    Image.fromarray(digits().test.images[8, 0].numpy()).save(image)
    assert "Pass --mean and --std" in refused("predict", named, image)
    reading = digits().test.preprocessing
    given = ["--mean", reading.mean[0], "--std", reading.std[0]]
    told = call("predict", named, image, *given, "--json").json()["predictions"]
    inputs = next(iter(digits().test.batches(9)))[0][8:]
    best = net(inputs).softmax(1).max()
    assert told[0]["classes"][0]["probability"] == pytest.approx(best.item(), rel=1e-4)
    net.set_preprocessing(reading).save_pretrained(folder / "saved")
    assert call("predict", named, image, "--json").json()["predictions"] == told
    data = digits().train.batches(100)
    more = {"head": "pooled", "preprocessing": reading, "progress": None}
    again, _ = build(create_model(f"{folder}/net.py:Net"), next(iter(data)), "relu", **more)
    assert again.record.preprocessing == reading.to_dict()
