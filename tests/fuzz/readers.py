"""Every reader of the package with good files to start from."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.optim import SGD

from fuzz import mutations as m
from vinets.algebra.polynomials import PolynomialSet
from vinets.cli.run_file import apply_run_file, write_run
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
from vinets.networks.uncut import UncutNetwork, read_uncut, write_uncut
from vinets.paper.page import read_results, results_page
from vinets.report.html import html
from vinets.runs.store import Store
from vinets.search.budget import Cost
from vinets.search.cost import CostTable
from vinets.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from vinets.training.history import Epoch

SMALL = {"components": 4, "keep": 2, "monomials": 8, "progress": None}


@dataclass(frozen=True)
class Reader:
    """A folder of good files, which of them to damage and how, and the call that reads them."""

    name: str
    folder: Path
    files: dict[str, m.Mutation]
    read: Callable[[Path], Any]
    share: float = 1.0  # of the inputs; slow readers get fewer


def readers(top: Path, libraries: bool = False) -> Iterator[Reader]:
    """Write the good files below ``top``; records of other libraries, which are slow, if asked."""
    torch.manual_seed(0)
    yield from _ground(top)
    yield from _algebra(top)
    yield from _data(top)
    yield from _networks(top)
    yield from _trials(top)
    yield from _runs(top)
    yield from _exported(top)
    if libraries:
        yield from _records(top)


def _ground(top: Path) -> Iterator[Reader]:
    folder = top / "json"
    write_json(folder / "a.json", {"a": [1, 2.5, None, {"b": "text"}], "c": {"d": {"e": [True]}}})
    yield Reader("json", folder, {"a.json": m.json_file}, lambda f: read_json(f / "a.json"))


def _algebra(top: Path) -> Iterator[Reader]:
    points = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    points[:, 2] = points[:, 0] * points[:, 1]
    for name, kind in (("polynomials", ABM), ("compositions", VCA)):
        folder = top / name
        found = kind(psi=0.01).fit(points).generators_
        found.save(folder / "p.safetensors")
        load = type(found).load

        def use(folder: Path, load: Callable[[Path], Any] = load) -> None:
            loaded = load(folder / "p.safetensors")
            repr(loaded)
            if isinstance(loaded, PolynomialSet):
                str(loaded)
            loaded.evaluate(np.zeros((2, loaded.n_variables)))

        yield Reader(name, folder, {"p.safetensors": m.tensor_file}, use)


def _data(top: Path) -> Iterator[Reader]:
    rng = np.random.default_rng(0)
    labels = np.arange(40, dtype=np.uint8) % 4
    images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    head3, head1 = struct.pack(">4B3I", 0, 0, 8, 3, 40, 8, 8), struct.pack(">4BI", 0, 0, 8, 1, 40)
    for name, suffix, pack, change in (
        ("idx", "", bytes, m.idx_file),
        ("idx, packed", ".gz", gzip.compress, m.gzip_file),
    ):
        folder = top / name
        folder.mkdir()
        files = {}
        for part in ("train", "t10k"):
            for what, content in (
                ("images-idx3", head3 + images.tobytes()),
                ("labels-idx1", head1 + labels.tobytes()),
            ):
                files[f"{part}-{what}-ubyte{suffix}"] = change
                (folder / f"{part}-{what}-ubyte{suffix}").write_bytes(pack(content))
        yield Reader(name, folder, files, idx_folder)
    folder = top / "npy"
    folder.mkdir()
    np.save(folder / "X.npy", images)
    np.save(folder / "y.npy", labels)
    npy = {"X.npy": m.npy_file, "y.npy": m.npy_file}
    yield Reader("npy", folder, npy, lambda f: npy_pair(f / "X.npy", f / "y.npy"))
    yield from _cifar(top, rng)
    folder = top / "tables"
    folder.mkdir()
    rows = [f"{a:.3f},{b:.3f},{'uv'[k % 2]}" for k, (a, b) in enumerate(rng.normal(size=(9, 2)))]
    (folder / "p.csv").write_text("\n".join(["a,b,kind", *rows]))
    table = {"p.csv": m.table_file}
    yield Reader("csv", folder, table, lambda f: read_points(f / "p.csv", "kind"))
    folder = top / "texts"
    folder.mkdir()
    for part in ("train", "test"):
        (folder / f"{part}.tsv").write_text("good\ta fine film\nbad\tnot so fine\n" * 3)
    yield Reader(
        "texts", folder, dict.fromkeys(("train.tsv", "test.tsv"), m.table_file), text_folder
    )
    with suppress(ImportError):
        from PIL import Image

        folder = top / "images"
        folder.mkdir()
        for suffix in ("png", "webp", "jpeg", "gif", "bmp"):
            Image.fromarray(images[0]).save(folder / f"a.{suffix}")
        files = {path.name: m.any_bytes for path in folder.iterdir()}

        def look(folder: Path) -> None:
            for path in sorted(folder.iterdir()):
                read_image(path, channels=3, size=(4, 4))

        yield Reader("images", folder, files, look)


def _cifar(top: Path, rng: np.random.Generator) -> Iterator[Reader]:
    pixels = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
    batches = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    folder = top / "cifar binary"
    folder.mkdir()
    for batch in batches:
        rows = b"".join(bytes([k]) + row.tobytes() for k, row in enumerate(pixels))
        (folder / f"{batch}.bin").write_bytes(rows)
    (folder / "batches.meta.txt").write_text("\n".join("abcdefghij"))
    files = {"data_batch_2.bin": m.records_file, "batches.meta.txt": m.any_bytes}
    yield Reader("cifar binary", folder, files, cifar)
    folder = top / "cifar pickles"
    folder.mkdir()
    for batch in batches:
        content = {b"data": pixels, b"labels": [3, 4], b"filenames": [b"a", b"b"]}
        (folder / batch).write_bytes(pickle.dumps(content, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}, 2))
    files = {"data_batch_1": m.pickle_file, "batches.meta": m.pickle_file}
    yield Reader("cifar pickles", folder, files, cifar, share=2.0)


def _networks(top: Path) -> Iterator[Reader]:
    torch.manual_seed(0)
    model = digits_cnn()
    data = digits()
    latents = collect(model, data.train, "relu3", per_class=12, progress=None)
    saved = {"config.json": m.json_file, "model.safetensors": m.tensor_file}
    for head in ("vanishing", "local"):
        folder = top / f"network, {head}"
        build(latents, head=head, **SMALL)[0].save_pretrained(folder)
        yield Reader(f"network, {head}", folder, saved, CutNetwork.from_pretrained, share=0.5)
    small = LocalOptions(components=4, keep=2, monomials=8)
    for kind, one in baselines(latents, "local", small).items():
        folder = top / f"baseline {kind}"
        one.save_pretrained(folder)
        yield Reader(f"baseline {kind}", folder, saved, CutNetwork.from_pretrained, share=0.1)
    folder = top / "uncut"
    source = source_of(model)
    assert source is not None
    inputs = {"": {"shape": [1, 8, 8], "dtype": "float32"}}
    told = Preprocessing(1, (8, 8), (0.5,), (0.5,))
    write_uncut(folder, UncutNetwork(model, source, inputs, tuple("0123456789"), told, {"a": 1}))
    files = {"network.json": m.json_file, "weights.safetensors": m.tensor_file}
    yield Reader("uncut network", folder, files, read_uncut, share=0.5)
    folder = top / "weights"
    save_weights(model, folder / "w.safetensors")
    weights = {"w.safetensors": m.tensor_file}
    yield Reader("weights", folder, weights, lambda f: load_weights(model, f / "w.safetensors"))
    folder = top / "record"
    write_json(
        folder / "r.json", {"library": "vinets", "name": "resnet18", "options": {"inputs": 3}}
    )
    record = {"r.json": m.json_file}
    yield Reader("record", folder, record, _sketched, share=0.05)
    yield from _training(top)


def _training(top: Path) -> Iterator[Reader]:
    layer = torch.nn.Linear(3, 2)
    optimizer = SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    epochs = [Epoch(1, 0.5, 0.5, None, None, 0.1)]
    facts = {"seed": 0, "recipe": {"epochs": 2}}
    folder = top / "checkpoint"
    state = Checkpoint(epochs, 1, {k: t.clone() for k, t in layer.state_dict().items()})
    write_checkpoint(folder, state, layer, optimizer, facts)

    def resume(folder: Path) -> None:
        fresh = torch.nn.Linear(3, 2)
        steps = SGD(fresh.parameters(), lr=0.1, momentum=0.9)
        found = read_checkpoint(folder, fresh, steps, facts)
        if found is not None:
            fresh.load_state_dict(found.best_state)
            fresh(torch.ones(1, 3)).sum().backward()
            steps.step()

    yield Reader("checkpoint", folder, {"checkpoint.safetensors": m.tensor_file}, resume)


def _trials(top: Path) -> Iterator[Reader]:
    # results that the repository holds are good files, too
    committed = Path(__file__).parents[2] / "benchmarks" / "results"
    folder = top / "store"
    folder.mkdir()
    first, *_ = (committed / "paper" / "trials.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "trials.jsonl").write_bytes(first)
    read = {"trials.jsonl": m.json_file}
    yield Reader("trial", folder, read, lambda f: list(Store(f).records()))
    folder = top / "results"
    folder.mkdir()
    (folder / "r.json").write_bytes((committed / "paper" / "fig-generators.json").read_bytes())
    yield Reader(
        "results", folder, {"r.json": m.json_file}, lambda f: html(results_page(read_results(f)))
    )
    folder = top / "claimed"
    Store(folder).reserve({"a": {"cut": "x"}}, {})

    claimed = {"store.json": m.json_file}
    yield Reader("store", folder, claimed, lambda f: Store(f).reserve({"a": {"cut": "x"}}, {}))


def _runs(top: Path) -> Iterator[Reader]:
    """What commands write of themselves."""
    options = [
        SimpleNamespace(name=f"--{name}", children=(), tokens=["given"])
        for name in ("data", "budget", "epochs")
    ]
    folder = top / "run"
    folder.mkdir()
    write_run(folder, "compress", {"data": "digits", "budget": ["drop=1"], "epochs": 2}, "1")
    yield Reader(
        "run",
        folder,
        {"run.toml": m.toml_file},
        lambda f: apply_run_file(str(f / "run.toml"), "compress", options),
    )
    folder = top / "search"
    known = CostTable(costs={"uncut": Cost(100, 0.5)}, diverged={"t": "nan"})
    write_json(folder / "search.json", as_plain(known))
    searched = {"search.json": m.json_file}
    yield Reader(
        "search",
        folder,
        searched,
        lambda f: from_plain(CostTable, read_json(f / "search.json"), str(f / "search.json")),
    )


def _exported(top: Path) -> Iterator[Reader]:
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError:
        return
    from vinets.networks.exported import open_exported

    helper, proto = onnx.helper, onnx.TensorProto
    node = helper.make_node("MatMul", ["input", "w"], ["logits"])
    weight = helper.make_tensor("w", proto.FLOAT, [3, 2], [1.0] * 6)
    ends = [
        helper.make_tensor_value_info(n, proto.FLOAT, ["batch", d])
        for n, d in (("input", 3), ("logits", 2))
    ]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, {"classes": '["a", "b"]', "preprocessing": "null"})
    folder = top / "onnx"
    folder.mkdir()
    onnx.save(model, str(folder / "a.onnx"))
    yield Reader(
        "onnx", folder, {"a.onnx": m.any_bytes}, lambda f: open_exported(f / "a.onnx"), share=0.3
    )


def _records(top: Path) -> Iterator[Reader]:
    """Networks of other packages, which are built from what a file says of them."""
    bert = {"vocab_size": 30, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    clip = {"vision_config": bert | {"model_type": "clip_vision_model"}, "text_config": bert}
    known = {
        "transformers": [
            ("BertModel", {"config": bert}),
            ("CLIPModel", {"config": {"vision_config": {"num_hidden_layers": 1}}}),
            ("LlavaModel", {"config": clip}),
        ],
        "timm": [("vit_tiny_patch16_224", {"img_size": 32, "depth": 1, "global_pool": "avg"})],
        "torchvision": [("squeezenet1_1", {"num_classes": 5})],
    }
    for library, networks in known.items():
        if importlib.util.find_spec(library) is None:
            continue
        for name, options in networks:
            folder = top / f"{library} {name}"
            write_json(folder / "r.json", {"library": library, "name": name, "options": options})
            record = {"r.json": m.json_file}
            yield Reader(f"record of {library} {name}", folder, record, _sketched, share=0.1)


def _sketched(folder: Path) -> None:
    sketch(read_json(folder / "r.json"), 1 << 24)


def damage(reader: Reader, rng: Random) -> tuple[str, bytes | None]:
    """Damage one file of a reader in its place; its name and what it holds now."""
    name = rng.choice(sorted(reader.files))
    path = reader.folder / name
    if rng.random() < 0.02:
        m.not_a_file(path, rng)
        return name, None
    content = reader.files[name](path.read_bytes(), rng)
    path.write_bytes(content)
    return name, content
