"""Every reader of the package with good files to start from."""

from __future__ import annotations

import gzip
import importlib.util
import io
import pickle
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.optim import SGD

from fuzz import mutations as m
from vinets.algebra.polynomials import PolynomialSet
from vinets.cli.parameters import apply_run_file, write_run
from vinets.core.files import read_json, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.data import cifar, digits, idx_folder, npy_pair
from vinets.data.images import Preprocessing, read_image
from vinets.data.points import read_points
from vinets.data.texts import text_folder
from vinets.heads import LocalOptions
from vinets.ideals.abm import ABM
from vinets.ideals.vca import VCA
from vinets.latent.collect import collect
from vinets.models import digits_cnn, load_weights, save_weights, source_of
from vinets.models.records import sketch
from vinets.networks import CutNetwork
from vinets.networks.build import baselines, build
from vinets.networks.files import UncutNetwork, read_uncut, write_uncut
from vinets.paper.page import read_results, results_page
from vinets.report.html import html
from vinets.runs.store import Store
from vinets.search.cost import Cost, CostTable
from vinets.training.checkpoint import Checkpoint, Epoch, read_checkpoint, write_checkpoint

COMMITTED = Path(__file__).parents[2] / "benchmarks" / "results" / "paper"  # good files, too


@dataclass(frozen=True)
class Reader:
    """A folder of good files, which of them to damage and how, and the call that reads them."""

    folder: Path
    files: dict[str, m.Mutation]
    read: Callable[[Path], Any]
    share: float = 1.0  # of the inputs; slow readers get fewer

    @property
    def name(self) -> str:
        return self.folder.name


def readers(top: Path, libraries: bool = False) -> Iterator[Reader]:
    """Write the good files below ``top``; records of other libraries, which are slow, if asked."""
    torch.manual_seed(0)
    yield from _algebra(top)
    yield from _data(top)
    yield from _networks(top)
    yield from _runs(top)
    yield from _records(top, libraries)


def _filled(folder: Path, **contents: bytes | str) -> Path:
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
        use = partial(_use_generators, type(generators))
        yield Reader(top / name, {"p.safetensors": m.tensor_file}, use)


def _use_generators(kind: Any, folder: Path) -> None:
    loaded = kind.load(folder / "p.safetensors")
    repr(loaded)
    if isinstance(loaded, PolynomialSet):
        str(loaded)
    loaded.evaluate(np.zeros((2, loaded.n_variables)))


def _data(top: Path) -> Iterator[Reader]:
    rng = np.random.default_rng(0)
    labels = np.arange(40, dtype=np.uint8) % 4
    images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    idx = {
        "images-idx3": struct.pack(">4B3I", 0, 0, 8, 3, 40, 8, 8) + images.tobytes(),
        "labels-idx1": struct.pack(">4BI", 0, 0, 8, 1, 40) + labels.tobytes(),
    }
    for name, suffix, pack, change in (
        ("idx", "", bytes, m.idx_file),
        ("idx, packed", ".gz", gzip.compress, m.gzip_file),
    ):
        parts = {f"{p}-{w}-ubyte{suffix}": pack(idx[w]) for p in ("train", "t10k") for w in idx}
        yield Reader(_filled(top / name, **parts), dict.fromkeys(parts, change), idx_folder)
    folder = _filled(top / "npy")
    np.save(folder / "X.npy", images)
    np.save(folder / "y.npy", labels)
    npy = {"X.npy": m.npy_file, "y.npy": m.npy_file}
    yield Reader(folder, npy, lambda f: npy_pair(f / "X.npy", f / "y.npy"))
    yield from _cifar(top, rng)
    rows = [f"{a:.3f},{b:.3f},{'uv'[k % 2]}" for k, (a, b) in enumerate(rng.normal(size=(9, 2)))]
    folder = _filled(top / "csv", **{"p.csv": "\n".join(["a,b,kind", *rows])})
    yield Reader(folder, {"p.csv": m.line_file}, lambda f: read_points(f / "p.csv", "kind"))
    lines = "good\ta fine film\nbad\tnot so fine\n" * 3
    texts = {"train.tsv": lines, "test.tsv": lines}
    yield Reader(_filled(top / "texts", **texts), dict.fromkeys(texts, m.line_file), text_folder)
    with suppress(ImportError):
        from PIL import Image

        folder = _filled(top / "images")
        for suffix in ("png", "webp", "jpeg", "gif", "bmp"):
            Image.fromarray(images[0]).save(folder / f"a.{suffix}")

        def look(folder: Path) -> None:
            for path in sorted(folder.iterdir()):
                read_image(path, channels=3, size=(4, 4))

        yield Reader(folder, {path.name: m.any_bytes for path in folder.iterdir()}, look)


def _cifar(top: Path, rng: np.random.Generator) -> Iterator[Reader]:
    pixels = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    batches = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    records = b"".join(bytes([k]) + row.tobytes() for k, row in enumerate(pixels))
    files: dict[str, Any] = {f"{name}.bin": records for name in batches}
    folder = _filled(top / "cifar binary", **files, **{"batches.meta.txt": "\n".join("abcdefghij")})
    changes = {"data_batch_2.bin": m.records_file, "batches.meta.txt": m.any_bytes}
    yield Reader(folder, changes, cifar)
    content = {b"data": pixels, b"labels": [3, 4], b"filenames": [b"a", b"b"]}
    files = dict.fromkeys(batches, pickle.dumps(content, protocol=2))
    files["batches.meta"] = pickle.dumps({"label_names": list("abcdefghij")}, 2)
    changes = {"data_batch_1": m.pickle_file, "batches.meta": m.pickle_file}
    yield Reader(_filled(top / "cifar pickles", **files), changes, cifar, share=2.0)


def _networks(top: Path) -> Iterator[Reader]:
    model, data = digits_cnn(), digits()
    latents = collect(model, data.train, "relu3", per_class=12, progress=None)
    saved = {"config.json": m.json_file, "model.safetensors": m.tensor_file}
    small: dict[str, Any] = {"components": 4, "keep": 2, "monomials": 8}
    networks = baselines(latents, "local", LocalOptions(**small))
    for head in ("vanishing", "local"):
        networks[head] = build(latents, head=head, progress=None, **small)[0]
    for kind, network in networks.items():
        folder, share = top / f"network, {kind}", 0.5 if kind in ("vanishing", "local") else 0.1
        network.save_pretrained(folder)
        yield Reader(folder, saved, CutNetwork.from_pretrained, share)
    source = source_of(model)
    assert source is not None
    inputs = {"": {"shape": [1, 8, 8], "dtype": "float32"}}
    reading, classes = Preprocessing(1, (8, 8), (0.5,), (0.5,)), tuple("0123456789")
    uncut = UncutNetwork(model, source, inputs, classes, reading, {"a": 1})
    write_uncut(top / "uncut network", uncut)
    files = {"network.json": m.json_file, "weights.safetensors": m.tensor_file}
    yield Reader(top / "uncut network", files, read_uncut, share=0.5)
    save_weights(model, top / "weights" / "w.safetensors")
    weights = {"w.safetensors": m.tensor_file}
    yield Reader(top / "weights", weights, lambda f: load_weights(model, f / "w.safetensors"))
    with suppress(ImportError):
        import onnx
        import onnxruntime  # noqa: F401

        yield _exported(top, onnx)


def _exported(top: Path, onnx: Any) -> Reader:
    from vinets.networks.formats import open_exported

    helper, proto = onnx.helper, onnx.TensorProto
    node = helper.make_node("MatMul", ["input", "w"], ["logits"])
    weight = helper.make_tensor("w", proto.FLOAT, [3, 2], [1.0] * 6)
    begin, end = (
        helper.make_tensor_value_info(name, proto.FLOAT, ["batch", size])
        for name, size in (("input", 3), ("logits", 2))
    )
    graph = helper.make_graph([node], "g", [begin], [end], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"classes": '["a", "b"]', "preprocessing": "null"})
    file = io.BytesIO()
    onnx.save(model, file)
    folder = _filled(top / "onnx", **{"a.onnx": file.getvalue()})
    return Reader(folder, {"a.onnx": m.any_bytes}, lambda f: open_exported(f / "a.onnx"), 0.3)


def _runs(top: Path) -> Iterator[Reader]:
    """Write the files that trainings, trials, searches and commands keep."""
    layer, facts = torch.nn.Linear(3, 2), {"seed": 0, "recipe": {"epochs": 2}}
    optimizer = SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    epochs = [Epoch(1, 0.5, 0.5, None, None, 0.1)]
    state = Checkpoint(epochs, 1, {k: t.clone() for k, t in layer.state_dict().items()})
    write_checkpoint(top / "checkpoint", state, layer, optimizer, facts)

    def resume(folder: Path) -> None:
        fresh = torch.nn.Linear(3, 2)
        steps = SGD(fresh.parameters(), lr=0.1, momentum=0.9)
        checkpoint = read_checkpoint(folder, fresh, steps, facts)
        if checkpoint is not None:
            fresh.load_state_dict(checkpoint.best_state)
            fresh(torch.ones(1, 3)).sum().backward()
            steps.step()

    yield Reader(top / "checkpoint", {"checkpoint.safetensors": m.tensor_file}, resume)
    first, *_ = (COMMITTED / "trials.jsonl").read_bytes().splitlines(keepends=True)
    folder = _filled(top / "trial", **{"trials.jsonl": first})
    yield Reader(folder, {"trials.jsonl": m.json_file}, lambda f: list(Store(f).records()))
    figure = (COMMITTED / "fig-generators.json").read_bytes()
    folder = _filled(top / "results", **{"r.json": figure})
    yield Reader(folder, {"r.json": m.json_file}, lambda f: html(results_page(read_results(f))))
    settings: dict[str, Any] = {"a": {"cut": "x"}}
    Store(_filled(top / "store")).claim([], {}, settings)
    claimed = {"store.json": m.json_file}
    yield Reader(top / "store", claimed, lambda f: Store(f).claim([], {}, settings))
    known = CostTable(costs={"uncut": Cost(100, 0.5)}, diverged={"t": "nan"})
    write_json(top / "search" / "search.json", as_plain(known))
    yield Reader(
        top / "search",
        {"search.json": m.json_file},
        lambda f: from_plain(CostTable, read_json(f / "search.json"), str(f / "search.json")),
    )
    options = [
        SimpleNamespace(name=f"--{name}", children=(), tokens=["given"])
        for name in ("data", "budget", "epochs")
    ]
    values = {"data": "digits", "budget": ["drop=1"], "epochs": 2}
    write_run(_filled(top / "run"), "compress", values, "1")
    yield Reader(
        top / "run",
        {"run.toml": m.line_file},
        lambda f: apply_run_file(str(f / "run.toml"), "compress", options),
    )


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
    for library, networks in known.items():
        if importlib.util.find_spec(library) is None:
            continue
        for name, options in networks.items():
            folder = top / f"record of {library} {name}"
            write_json(folder / "r.json", {"library": library, "name": name, "options": options})
            yield Reader(
                folder,
                {"r.json": m.json_file},
                lambda f: sketch(read_json(f / "r.json"), 1 << 24),
                share=0.05 if library == "vinets" else 0.1,
            )


def damage(reader: Reader, rng: Random) -> tuple[str, bytes | None]:
    """Damage one file of a reader in its place; return its name and new content."""
    name = rng.choice(sorted(reader.files))
    path = reader.folder / name
    if rng.random() < 0.02:
        m.not_a_file(path, rng)
        return name, None
    content = reader.files[name](path.read_bytes(), rng)
    path.write_bytes(content)
    return name, content
