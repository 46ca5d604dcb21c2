"""Make the golden files; runs with version 0.2.0 only, whose API it calls.

    vinets train --recipe digits-cnn --out out/uncut
    python tests/golden/make.py out/uncut

It needs the package, the benchmarks and the tests next to this file as they were when it was added.
A network is built behind ``relu1`` of the digits CNN for every kind of head, trained for two short
epochs, and saved as it is and, where that is another network, folded. The weights of untrained
heads of a seed are kept as well, and every table that the committed results give. Imports are
inside of functions, because pytest imports this file with every version.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUT = HERE / "0.2"


def make_networks(uncut: Path) -> dict[str, Any]:
    """Return networks by the name of their folder; the uncut network is copied."""
    import copy

    import torch

    from vinets import ABM, VCA, attach_distances, baselines, build, collect, fine_tune
    from vinets.data import digits
    from vinets.heads import DistanceHead
    from vinets.heads.class_distances import ClassSpace, fit_distances
    from vinets.networks.network import network_of
    from vinets.networks.storage import read_uncut

    (OUT / "networks" / "uncut").mkdir(parents=True)
    for name in ("network.json", "weights.safetensors"):
        shutil.copy(uncut / name, OUT / "networks" / "uncut" / name)
    known = read_uncut(uncut).model.eval()
    model = copy.deepcopy(known)  # the copy has no marks of its training data, for small files
    data = digits().train
    some = data.subset(torch.arange(200))
    pooled: dict[str, Any] = {"per_class": 16, "read": "pool", "pool": 2, "reuse": True}
    latents = collect(model, some, "relu1", **pooled, progress=None)
    small: dict[str, Any] = {"components": 6, "keep": 2, "monomials": 24, "progress": None}
    cubic, square = ABM(0.1, max_degree=3), ABM(0.1, max_degree=2)

    heads = {
        "vanishing": build(latents, ideal=cubic, **small),
        "vanishing-pca-tanh-path": build(
            latents, ideal=cubic, order="pca-tanh", scale="none", linear_path=4, **small
        ),
        "vanishing-sparse-trained": build(
            latents, ideal=cubic, sparse=True, train_projection=True, **small
        ),
        "vanishing-vca": build(latents, ideal=VCA(psi=0.1, max_degree=2), **small),
        "local": build(
            latents, ideal=square, placement="local", components=5, keep=2, progress=None
        ),
        "local-channels-path": build(
            latents, placement="local", keep=2, linear_path=4, progress=None
        ),
        "products": build(latents, placement="products", head_parameters=1200),
        "products-cubic": build(
            latents,
            placement="products",
            head_parameters=1200,
            factors=3,
            spatial_rank=None,
            offset=1.0,
        ),
        "products-ideal": build(
            latents,
            placement="products",
            head_parameters=1200,
            start="ideal",
            ideal=square,
            components=6,
            keep=2,
        ),
    }
    made = {name: net for name, (net, _) in heads.items()}
    for name, beside in (("vanishing", None), ("local", None), ("products", model)):
        for other in baselines(made[name], latents, model=beside, max_degree=3).values():
            made.setdefault(other.head.kind, other)
    # the map itself, behind a cut where the network's marks are known
    made["products-map"] = build(
        known, data, "pool", placement="products", head_parameters=1500, per_class=4, reuse=True
    )[0]
    for name, net in made.items():
        part = data if name == "products-map" else some
        fine_tune(net, part, epochs=2, batch_size=32, teacher=model, progress=None)

    features = torch.cat([z for z, _ in latents.store.chunks(256)]).mean(-1)
    labels = latents.store.labels
    for name, space in (
        ("distance", ClassSpace(6, 4, 2, 0.5)),
        ("distance-shared", ClassSpace(6)),
    ):
        head = DistanceHead(fit_distances(features, labels, space, 10))
        with torch.no_grad():
            head.temperature.fill_(0.7)
            head.bias.copy_(torch.linspace(-1, 1, 10))
        made[name] = network_of(latents.backbone, latents.reader, head, latents.record).eval()
    made["closed-form"] = build(latents, epochs=0)[0]
    made["pooled-distances"] = attach_distances(copy.deepcopy(made["pooled"]), some)
    made["vanishing-half"] = copy.deepcopy(made["vanishing"]).half()
    return made


def write_networks(made: dict[str, Any]) -> None:
    """Write every network, and what it says about some test images."""
    import torch
    from safetensors.torch import save_file

    from vinets import CutNetwork
    from vinets.data import digits
    from vinets.networks.open import open_network

    inputs = next(iter(digits().test.batches(12)))[0]
    expected = {"inputs": inputs}
    folders = OUT / "networks"
    with torch.no_grad():
        expected["uncut"] = open_network(folders / "uncut").network(inputs)
        for name, net in made.items():
            net.eval().save_pretrained(folders / name)
            folded = net.folded()
            before, after = net.state_dict(), folded.state_dict()
            if before.keys() != after.keys() or net.head.config() != folded.head.config():
                folded.save_pretrained(folders / f"{name}-folded")
        for folder in sorted(folders.iterdir()):
            if folder.name != "uncut":
                loaded = CutNetwork.from_pretrained(folder).float()
                expected[folder.name] = loaded(inputs)
                if loaded.has_distances:
                    expected[f"{folder.name}.distance"] = loaded.distance(inputs)
    save_file({k: t.contiguous() for k, t in expected.items()}, OUT / "expected.safetensors")


def write_seeded() -> None:
    """Write the weights of untrained heads of a seed."""
    from safetensors.torch import save_file
    from test_seeds import OPTIONS, seeded_head

    heads = {kind: seeded_head(kind) for kind in OPTIONS}
    tensors = {
        f"{kind}.{k}": t.contiguous() for kind, head in heads.items() for k, t in head.items()
    }
    save_file(tensors, OUT / "seeded.safetensors")


def write_tables() -> None:
    """Write every table that is made from the results in the repository."""
    for name in ("tables.txt", "findings.txt"):
        (OUT / name).touch()  # the tests read them when they are imported
    from test_tables import EXPERIMENTS, MARKER, render_findings, render_stores, render_table

    from benchmarks.tables import PAGES

    marked = "<!-- table: {} -->\n{}\n<!-- end -->\n"
    names = dict.fromkeys(name for page in PAGES for name, _ in MARKER.findall(page.read_text()))
    tables = [marked.format(name, render_table(name)) for name in names]
    (OUT / "tables.txt").write_text("\n".join(tables))
    findings = [marked.format(name, render_findings(name)) for name in EXPERIMENTS]
    (OUT / "findings.txt").write_text("\n".join(findings))
    (OUT / "trials.txt").write_text(render_stores() + "\n")


def main() -> None:
    import vinets

    if vinets.__version__ != "0.2.0":
        sys.exit(f"The golden files are those of version 0.2.0. This is {vinets.__version__}.")
    shutil.rmtree(OUT, ignore_errors=True)
    write_networks(make_networks(Path(sys.argv[1])))
    write_seeded()
    write_tables()


if __name__ == "__main__":
    main()
