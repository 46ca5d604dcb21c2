"""Every reader of the package with good files to start from."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
import shutil
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.optim import SGD

from fuzz import mutations as m
from vinets.cli.parameters import apply_run_file, write_run
from vinets.core.files import read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.data import cifar, idx_folder, npy_pair
from vinets.data.classes import read_classes
from vinets.data.images import read_image
from vinets.data.points import read_points
from vinets.data.texts import text_folder
from vinets.ideals.abm import ABM
from vinets.ideals.vca import VCA
from vinets.models import digits_cnn, load_weights, save_weights
from vinets.models.records import sketch
from vinets.networks import CutNetwork
from vinets.networks.storage import read_uncut
from vinets.paper.page import read_results, results_page
from vinets.report.html import html
from vinets.runs.store import Store
from vinets.search.budget import Cost, CostTable
from vinets.training.epochs import Checkpoint, Epoch, read_checkpoint, write_checkpoint

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "paper"  # good files, too
SAVED = Path(__file__).parents[1] / "golden" / "0.2" / "networks"
# How files are damaged, by the first pattern that their name fits.
CHANGES: dict[str, m.Mutation] = {
    **{"*.json*": m.json_file, "*.safetensors": m.tensor_file, "*.npy": m.npy_file},
    **{"*.csv": m.line_file, "*.tsv": m.line_file, "*.toml": m.line_file},
    **{"*-ubyte.gz": m.gzip_file, "*-ubyte": m.idx_file, "*.bin": m.records_file},
    **{"*.txt": m.any_bytes, "*batch*": m.pickle_file, "*.th": m.pickle_file, "*": m.any_bytes},
}


class Reader(NamedTuple):
    """A folder of good files, and the call that reads them."""

    folder: Path
    read: Callable[[Path], Any]
    share: float = 1.0  # of the inputs; slow readers get fewer

    @property
    def name(self) -> str:
        return self.folder.name


def damage(reader: Reader, rng: Random) -> tuple[str, bytes | None]:
    """Damage one file of a reader in its place; return its name and new content."""
    path = rng.choice(sorted(path for path in reader.folder.iterdir() if path.name[0] != "."))
    if rng.random() < 0.02:
        m.not_a_file(path, rng)
        return path.name, None
    change = next(CHANGES[pattern] for pattern in CHANGES if fnmatch(path.name, pattern))
    content = change(path.read_bytes(), rng)
    path.write_bytes(content)
    return path.name, content


def readers(top: Path, libraries: bool = False) -> Iterator[Reader]:
    """Write the good files below ``top``; records of other libraries, which are slow, if asked."""
    torch.manual_seed(0)
    for group in (_algebra, _data, _networks, _runs):
        yield from group(top)
    yield from _records(top, libraries)


def _filled(folder: Path, contents: Mapping[str, bytes | str]) -> Path:
    """Make a folder with these files."""
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def _algebra(top: Path) -> Iterator[Reader]:
    points = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    points[:, 2] = points[:, 0] * points[:, 1]
    for name, kind in (("polynomials", ABM), ("compositions", VCA)):
        generators = kind(psi=0.01).fit(points).generators_
        generators.save(top / name / "p.safetensors")

        def use(folder: Path, load: Any = generators.load) -> None:
            loaded = load(folder / "p.safetensors")
            repr(loaded), str(loaded)
            loaded.evaluate(np.zeros((2, loaded.n_variables)))

        yield Reader(top / name, use)


def _data(top: Path) -> Iterator[Reader]:
    rng = np.random.default_rng(0)
    labels = np.arange(40, dtype=np.uint8) % 4
    images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    idx = {
        "images-idx3-ubyte": struct.pack(">4B3I", 0, 0, 8, 3, 40, 8, 8) + images.tobytes(),
        "labels-idx1-ubyte": struct.pack(">4BI", 0, 0, 8, 1, 40) + labels.tobytes(),
    }
    idx = {f"{part}-{name}": idx[name] for part in ("train", "t10k") for name in idx}
    packed = {f"{name}.gz": gzip.compress(content) for name, content in idx.items()}
    yield Reader(_filled(top / "idx", idx), idx_folder)
    yield Reader(_filled(top / "idx, packed", packed), idx_folder)
    folder = _filled(top / "npy", {})
    np.save(folder / "X.npy", images)
    np.save(folder / "y.npy", labels)
    yield Reader(folder, lambda f: npy_pair(f / "X.npy", f / "y.npy"))
    pixels = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    batches = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    records = b"".join(bytes([k]) + row.tobytes() for k, row in enumerate(pixels))
    files: dict[str, Any] = {f"{name}.bin": records for name in batches}
    folder = _filled(top / "cifar binary", files | {"batches.meta.txt": "\n".join("abcdefghij")})
    yield Reader(folder, cifar)
    content = {b"data": pixels, b"labels": [3, 4], b"filenames": [b"a", b"b"]}
    files = dict.fromkeys(batches, pickle.dumps(content, protocol=2))
    files["batches.meta"] = pickle.dumps({"label_names": list("abcdefghij")}, 2)
    yield Reader(_filled(top / "cifar pickles", files), cifar, share=2.0)
    rows = [f"{a:.3f},{b:.3f},{'uv'[k % 2]}" for k, (a, b) in enumerate(rng.normal(size=(9, 2)))]
    folder = _filled(top / "csv", {"p.csv": "\n".join(["a,b,kind", *rows])})
    yield Reader(folder, lambda f: read_points(f / "p.csv", "kind"))
    names = {"names.txt": "tench, Tinca tinca\npug\ngreat_dane\n"}
    yield Reader(_filled(top / "classes", names), lambda f: read_classes(f / "names.txt"))
    lines = "good\ta fine film\nbad\tnot so fine\n" * 3
    yield Reader(_filled(top / "texts", {"train.tsv": lines, "test.tsv": lines}), text_folder)
    with suppress(ImportError):
        from PIL import Image

        folder, turned = _filled(top / "images", {}), Image.Exif()
        turned[0x0112] = 6
        for suffix in ("png", "webp", "jpeg", "gif", "bmp", "tiff"):
            Image.fromarray(images[0]).save(folder / f"a.{suffix}", exif=turned)
        yield Reader(folder, lambda f: [read_image(one, 3, (4, 4)) for one in sorted(f.iterdir())])


def _networks(top: Path) -> Iterator[Reader]:
    """Take the networks that the golden tests open, and weights and a file of ONNX."""
    for saved in sorted(SAVED.iterdir()):
        if not saved.name.endswith("-folded"):
            folder = shutil.copytree(saved, top / f"network, {saved.name}")
            read = read_uncut if saved.name == "uncut" else CutNetwork.from_pretrained
            share = 0.5 if saved.name in ("uncut", "vanishing", "local") else 0.05
            yield Reader(folder, read, share)
    model = digits_cnn()
    save_weights(model, top / "weights" / "w.safetensors")
    yield Reader(top / "weights", lambda f: load_weights(model, f / "w.safetensors"))
    for name in ("w.pth", "w.th"):  # as PyTorch writes them now, and as it did before 1.6
        folder, content = _filled(top / f"torch, {name}", {}), {"state_dict": model.state_dict()}
        torch.save(content, folder / name, _use_new_zipfile_serialization=name == "w.pth")
        yield Reader(folder, lambda f, name=name: load_weights(model, f / name))
    with suppress(ImportError):
        import onnx
        import onnxruntime  # noqa: F401

        from vinets.networks.runtimes import open_exported

        helper, proto = onnx.helper, onnx.TensorProto
        node = helper.make_node("MatMul", ["input", "w"], ["logits"])
        weight = helper.make_tensor("w", proto.FLOAT, [3, 2], [1.0] * 6)
        begin, end = (
            helper.make_tensor_value_info(name, proto.FLOAT, ["batch", size])
            for name, size in (("input", 3), ("logits", 2))
        )
        graph = helper.make_graph([node], "g", [begin], [end], [weight])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        helper.set_model_props(made, {"classes": '["a", "b"]', "preprocessing": "null"})
        folder = _filled(top / "onnx", {"a.onnx": made.SerializeToString()})
        yield Reader(folder, lambda f: open_exported(f / "a.onnx"), 0.3)


def _runs(top: Path) -> Iterator[Reader]:
    """Write the files that trainings, trials, searches and commands keep."""
    facts = {"seed": 0, "recipe": {"epochs": 2}}

    def trained() -> tuple[torch.nn.Linear, SGD]:
        layer = torch.nn.Linear(3, 2)
        return layer, SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def step(layer: torch.nn.Linear, optimizer: SGD) -> None:
        layer(torch.ones(1, 3)).sum().backward()
        optimizer.step()

    layer, optimizer = trained()
    step(layer, optimizer)
    epochs = [Epoch(1, 0.5, 0.5, None, None, 0.1)]
    state = Checkpoint(epochs, 1, {k: t.clone() for k, t in layer.state_dict().items()})
    write_checkpoint(top / "checkpoint", state, layer, optimizer, facts)

    def resume(folder: Path) -> None:
        layer, optimizer = trained()
        checkpoint = read_checkpoint(folder, layer, optimizer, facts)
        if checkpoint is not None:
            layer.load_state_dict(checkpoint.best_state)
            step(layer, optimizer)

    yield Reader(top / "checkpoint", resume)
    first, *_ = (COMMITTED / "trials.jsonl").read_bytes().splitlines(keepends=True)
    folder = _filled(top / "trial", {"trials.jsonl": first})
    yield Reader(folder, lambda f: list(Store(f).records()))
    folder = _filled(top / "results", {"r.json": (COMMITTED / "fig-generators.json").read_bytes()})
    yield Reader(folder, lambda f: html(results_page(read_results(f))))
    settings = {"a": {"cut": "x"}}
    Store(_filled(top / "store", {})).claim([], {}, settings)
    yield Reader(top / "store", lambda f: Store(f).claim([], {}, settings))
    write_json(top / "search" / "search.json", as_plain(CostTable({"uncut": Cost(100, 0.5)})))
    search = partial(from_plain, CostTable)
    yield Reader(top / "search", lambda f: search(read_json(f / "search.json"), str(f)))
    names = ("--data", "--budget", "--epochs")
    options = [SimpleNamespace(name=name, children=(), tokens=["given"]) for name in names]
    values = {"data": "digits", "budget": ["drop=1"], "epochs": 2}
    file = write_run(_filled(top / "run", {}), "compress", values).name
    run = partial(apply_run_file, command="compress", arguments=options)
    yield Reader(top / "run", lambda f: run(str(f / file)))


def _records(top: Path, libraries: bool) -> Iterator[Reader]:
    """Write what files say of networks of this package and others, which are built from it."""
    bert = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    clip = {"vision_config": bert | {"model_type": "clip_vision_model"}, "text_config": bert}
    known: dict[str, dict[str, Any]] = {"vinets": {"resnet18": {"inputs": 3}}}
    if libraries:
        known |= {
            "transformers": {
                "BertModel": {"config": bert},
                "CLIPModel": {"config": {"vision_config": {"num_hidden_layers": 1}}},
                "LlavaModel": {"config": clip},
            },
            "timm": {"vit_tiny_patch16_224": {"img_size": 32, "depth": 1, "global_pool": "avg"}},
            "torchvision": {"squeezenet1_1": {"num_classes": 5}},
        }
    for library in filter(importlib.util.find_spec, known):
        for name, options in known[library].items():
            folder = top / f"record of {library} {name}"
            write_json(folder / "r.json", {"library": library, "name": name, "options": options})
            share = 0.05 if library == "vinets" else 0.1
            yield Reader(folder, lambda f: sketch(read_json(f / "r.json"), 1 << 24), share)
