"""The theory in numbers: complexities, bounds and advice on trained networks, and its checks.

    python -m benchmarks.theory --weights weights \\
        --data10 cifar10:data/cifar10 --data100 cifar100:data/cifar100

Without ``--weights``, only the parts that need neither weights nor CIFAR run. Also draws
``docs/images/cancellation.svg`` and ``docs/images/manifolds.svg``.

The VI-Nets are the paper's Small ones with tanh behind the PCA, built from and trained on a part of
the data, so that all of it runs on a CPU in a few minutes. Their accuracy is no result; it shows
that the bounds are checked on networks that have learnt something.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.manifolds import sphere_points, swiss_roll, torus_points
from benchmarks.record import keep
from vinets import VINet, build, fine_tune
from vinets.core.settings import TrainingOptions
from vinets.data import load_data
from vinets.data.source import Source
from vinets.heads import VanishingHead
from vinets.measure import evaluate, intrinsic_dimension
from vinets.models import PRESETS, create_model, digits_cnn, load_weights
from vinets.models.networks import SIZES
from vinets.theory import Complexity, Study, polynomial_bounds, study
from vinets.theory.bounds import inex, subsets
from vinets.theory.complexity import spectral_complexity
from vinets.theory.layers import read_layers
from vinets.theory.norms import LinearLayer, row_norms, spectral_norm

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# Uncut network, VI-Net on it, classes, and examples a class that its ideals are fitted to.
NETWORKS = (
    ("resnet18_cifar10", "VI-Net18-Small", 10, 256),
    ("resnet34_cifar100", "VI-Net34-Small", 100, 64),
)
TUNED, EPOCHS, TESTED, MARGINS = 10_000, 5, 2_000, 5_000
POINTS = {
    2: 10_000,
    3: 10_000,
    4: 20_000,
    5: 50_000,
    6: 100_000,
    7: 200_000,
    8: 200_000,
    9: 500_000,
    10: 500_000,
}  # the larger the dimension, the more points it takes
MANIFOLDS: dict[str, Callable[..., Any]] = {
    "sphere": sphere_points,
    "torus": torus_points,
    "swiss_roll": swiss_roll,
}
LABELS = {"sphere": "sphere", "torus": "torus", "swiss_roll": "Swiss roll"}
COLOURS = ("#0072b2", "#d55e00", "#009e73")


# Complexity, bounds, advice and corollary


def trained(model: nn.Module, name: str, data: Source, per_class: int) -> tuple[VINet, float]:
    """A preset's VI-Net, trained a little, and tau of its polynomials before the training."""
    kind, cut = PRESETS[name]
    net, _ = build(
        model,
        data,
        cut,
        normalization="unit",
        components=SIZES[kind]["components"],
        keep=SIZES[kind]["keep"],
        monomials=SIZES[kind]["monomials"],
        per_class=per_class,
        reuse=False,
        progress=None,
    )
    head = net.folded().head
    assert isinstance(head, VanishingHead)
    tau = polynomial_bounds(head.polynomials).size.tau
    recipe = TrainingOptions(epochs=EPOCHS, views=1, augment=False)
    fine_tune(net, part(data, TUNED), recipe=recipe, progress=None)
    return net, tau


def part(data: Source, count: int) -> Source:
    """Random examples, the same ones each time."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))
    return data.subset(order[:count])


@dataclass(frozen=True)
class Examined:
    """An uncut network, a VI-Net on it, and what the theory says about the two."""

    name: str
    backbone: str
    study: Study
    bare: Study  # without the VI-Net
    seconds: tuple[float, float]
    accuracies: tuple[float, float]
    tau_built: float


def examined(weights: Path, spec: str, file: str, name: str, classes: int, count: int) -> Examined:
    (kind, cut), data = PRESETS[name], load_data(spec)
    model = create_model(kind, classes).eval()
    load_weights(model, weights / f"{file}.safetensors")
    example = data.train.example()
    assert isinstance(example, Tensor)
    net, tau = trained(model, name, data.train, count)
    seconds = timed(lambda: spectral_complexity(model, example))
    seconds_cut = timed(lambda: spectral_complexity(net, example))
    tests, some = part(data.test, TESTED), part(data.train, MARGINS)
    accuracies = [
        evaluate(each, tests.batches(256), device="cpu").accuracy for each in (model, net)
    ]
    found = study(model, cut, example, network=net, batches=lambda: some.batches(256))
    bare = study(model, cut, example, components=SIZES[kind]["components"])
    times, (before, after) = (seconds, seconds_cut), accuracies
    return Examined(name, kind, found, bare, times, (before, after), tau)


def timed(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def complexities(weights: Path, specs: tuple[str, str], command: str) -> None:
    """R of both uncut networks and of a VI-Net on each; the bounds; the advice; the corollary."""
    every = [examined(weights, spec, *each) for each, spec in zip(NETWORKS, specs, strict=True)]
    rows = [row for each in every for row in complexity_rows(each)]
    total = sum(row["seconds"] for row in rows)
    keep("theory_complexity", rows, command=command, seconds_in_total=total)
    keep("theory_bounds", [r for each in every for r in bound_rows(each)], command=command)
    rows = [r for each in every for r in corollary_rows(each)]
    keep("theory_corollary", rows, command=command, examples=MARGINS)
    settings = {e.name: {k: facts(v) for k, v in sides(e).items()} for e in every}
    rows = [r for each in every for r in advice_rows(each)]
    keep("theory_advice", rows, command=command, settings=settings)


def complexity_rows(each: Examined) -> list[dict[str, Any]]:
    behind = each.study.network
    assert behind is not None and behind.head.bounds is not None
    size = behind.head.bounds.size
    more = {
        "log10_kappa": each.study.log10_kappa,
        "log10_removed": each.study.split.log10_removed,
        "log10_head": Complexity(behind.head.layers).log10_product,
        "degree": size.degree,
        "monomials": size.monomials,
        "polynomials": size.polynomials,
        "tau": size.tau,
        "tau_before_training": each.tau_built,
    }
    networks: tuple[tuple[str, Complexity, dict[str, Any]], ...]
    networks = ((each.backbone, each.study.uncut, {}), (each.name, behind.whole, more))
    rows = []
    for i, (name, found, extra) in enumerate(networks):
        excess = [x.kernel_bound / x.spectral for x in found.layers if x.kernel_bound is not None]
        row = {
            "network": name,
            "layers": len(found.layers),
            "log10_product": found.log10_product,
            "log10_R": found.log10_R,
            "converged": all(layer.converged for layer in found.layers),
            "largest_kernel_excess": max(excess),
            "seconds": each.seconds[i],
            "accuracy_points": 100 * each.accuracies[i],
        }
        rows.append(row | extra)
    return rows


def bound_rows(each: Examined) -> list[dict[str, Any]]:
    assert each.study.network is not None and each.study.network.head.bounds is not None
    return [
        {"network": each.name, "quantity": b.quantity, "source": b.source}
        | {"actual": b.actual, "bound": b.bound, "tightness": b.tightness, "holds": b.holds}
        for b in each.study.network.head.bounds.bounds
    ]


def corollary_rows(each: Examined) -> list[dict[str, Any]]:
    corollary = each.study.corollary
    assert corollary is not None
    rows = []
    for name, bound in ((each.backbone, corollary.uncut), (each.name, corollary.network)):
        median = bound.quantiles(0.5)
        rows.append(
            {
                "network": name,
                "margin_error": bound.error,
                "median_margin": median,
                "width": bound.width,
                "log10_complexity_term": bound.log10_complexity_term(median),
                "confidence_term": bound.confidence_term,
                "log10_quotient": None,
            }
        )
    quotient = corollary.ratio()
    rows[1]["log10_quotient"] = None if quotient is None else math.log10(quotient)
    return rows


def sides(each: Examined) -> dict[str, Study]:
    """What the advice counts between the cut and the polynomials."""
    return {"components only": each.bare, "as trained": each.study}


def facts(found: Study) -> dict[str, Any]:
    told = found.advice.to_dict()
    return {key: told[key] for key in told if key not in ("rows", "path")}


def advice_rows(each: Examined) -> list[dict[str, Any]]:
    """One row a size on the way of the recommendation, one column a degree."""
    table: dict[tuple[Any, ...], dict[str, Any]] = {}
    for before, found in sides(each).items():
        for row in found.advice.path:
            key = (each.name, before, row.polynomials, row.monomials)
            names = ("network", "before", "polynomials", "monomials")
            line = table.setdefault(key, dict(zip(names, key, strict=True)))
            line[f"log10_tau_{row.degree}"] = row.log10_tau_max
    return list(table.values())


# Layer norms against a dense matrix


def random_layers() -> list[tuple[str, nn.Conv2d, tuple[int, int, int]]]:
    """A dozen small convolutions of all kinds that are supported."""
    kinds: list[tuple[dict[str, Any], int]] = [
        ({"kernel_size": 3, "padding": 1}, 8),
        ({"kernel_size": 3}, 8),
        ({"kernel_size": 5, "padding": 2}, 9),
        ({"kernel_size": 1, "stride": 2}, 9),
        ({"kernel_size": 3, "padding": 1, "stride": 2}, 9),
        ({"kernel_size": (3, 5), "padding": (1, 2), "stride": (1, 3)}, 10),
        ({"kernel_size": 3, "padding": 2, "dilation": 2}, 9),
        ({"kernel_size": 3, "padding": 1, "groups": 2}, 8),
        ({"kernel_size": 3, "padding": 1, "groups": 4, "stride": 2}, 8),
        ({"kernel_size": 3, "padding": 1, "padding_mode": "circular"}, 8),
        ({"kernel_size": 3, "padding": 2, "dilation": 2, "padding_mode": "circular"}, 9),
        ({"kernel_size": 3, "padding": 1, "stride": 2, "padding_mode": "circular"}, 8),
    ]
    torch.manual_seed(0)
    layers = [(nn.Conv2d(4, 8, **options), (4, size, size)) for options, size in kinds]
    names = [", ".join(f"{k} {v}" for k, v in options.items()) for options, _ in kinds]
    return [(name.replace("_", " "), *each) for name, each in zip(names, layers, strict=True)]


@torch.no_grad()
def dense(layer: LinearLayer, shape: tuple[int, ...]) -> Tensor:
    """The layer as a matrix: PyTorch's own answer to every unit vector, without the bias."""
    size = int(np.prod(shape))
    module = layer.double()
    units = torch.eye(size, dtype=torch.float64).reshape(size, *shape)
    return (module(units) - module(torch.zeros_like(units[:1]))).flatten(1).T


def norms(command: str) -> None:
    layers: list[tuple[str, str, LinearLayer, tuple[int, ...]]]
    layers = [("random", *each) for each in random_layers()]
    torch.manual_seed(0)
    digits = read_layers(digits_cnn(), torch.zeros(1, 1, 8, 8))
    layers += [("digits_cnn", each.name, each.operator, each.input_shape) for each in digits]
    rows = []
    for source, name, layer, shape in layers:
        matrix = dense(layer, shape)
        exact = float(torch.linalg.matrix_norm(matrix, 2))
        exact_rows = float(matrix.norm(dim=1).sum())
        found = spectral_norm(layer, shape)
        rows.append(
            {
                "source": source,
                "layer": name,
                "matrix": f"{matrix.shape[0]} × {matrix.shape[1]}",
                "spectral": exact,
                "spectral_error": abs(found.value / exact - 1),
                "upper_excess": found.upper / exact - 1,
                "two_one": exact_rows,
                "two_one_error": abs(float(row_norms(layer, shape).sum()) / exact_rows - 1),
            }
        )
    keep("theory_norms", rows, command=command)


# Cancellation in the encoding


def cancellation(degree: int, dtype: torch.dtype, points: int = 64) -> list[float]:
    """Relative errors of the encoding of x_1 x_2 ... x_d at points uniform in [-1, 1]^d.

    The products that the errors refer to are exact.
    """
    generator = torch.Generator().manual_seed(0)
    x = (2 * torch.rand(points, degree, generator=generator, dtype=torch.float64) - 1).to(dtype)
    masks = torch.from_numpy(subsets(degree)).to(x)
    errors = []
    for point in x:  # one at a time, because each has 2^d partial sums
        exact = math.prod(map(Fraction, point.tolist()), start=Fraction(1))
        value = Fraction(float(inex(masks @ point, degree)))
        errors.append(float(abs(value - exact) / abs(exact)))
    return errors


def amplification(degree: int) -> float:
    """Size of the summands over the size of their sum, at x = (1, ..., 1)."""
    total = sum(math.comb(degree, k) * k**degree for k in range(1, degree + 1))
    return total / math.factorial(degree)


def cancellations(command: str) -> None:
    rows = []
    for degree in range(1, 17):
        row: dict[str, Any] = {"degree": degree, "amplification": amplification(degree)}
        for name in ("float64", "float32"):
            errors = cancellation(degree, getattr(torch, name))
            row |= {f"{name}_median": float(np.median(errors)), f"{name}_worst": max(errors)}
        rows.append(row)
    keep("theory_cancellation", rows, command=command)
    draw(IMAGES / "cancellation.svg", lambda axes: draw_cancellation(axes, rows))


def draw_cancellation(axes: Any, rows: list[dict[str, Any]]) -> None:
    degrees = [row["degree"] for row in rows]
    for colour, name in zip(COLOURS, ("float64", "float32"), strict=False):
        eps = torch.finfo(getattr(torch, name)).eps
        median = [row[f"{name}_median"] or np.nan for row in rows]  # an exact product has no log
        worst = [row[f"{name}_worst"] or np.nan for row in rows]
        model = [eps * row["amplification"] for row in rows]
        axes.plot(degrees, worst, "^", color=colour, markersize=5, label=f"{name}, worst")
        axes.plot(degrees, median, "o-", color=colour, markersize=4, label=f"{name}, median")
        axes.plot(degrees, model, "--", color=colour, linewidth=1, label="ε × amplification")
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_xlabel("degree d")
    axes.set_ylabel("relative error")
    axes.legend(fontsize=8, ncols=2, loc="upper left")
    axes.set_ylim(1e-17, 1e11)  # room for the legend


# Manifolds of known dimension


def manifolds(command: str) -> None:
    rows = []
    for dimension, count in POINTS.items():
        row: dict[str, Any] = {"dimension": dimension, "points": count}
        errors = []
        for name, points in MANIFOLDS.items():
            row[name] = intrinsic_dimension(points(count, dimension), neighbours=5, samples=2000)
            errors.append(row[name] / dimension - 1)
        row["largest_error_share"] = max(errors, key=abs)
        rows.append(row)
    keep("theory_manifolds", rows, command=command, neighbours=5, samples=2000, seed=0)
    draw(IMAGES / "manifolds.svg", lambda axes: draw_manifolds(axes, rows))


def draw_manifolds(axes: Any, rows: list[dict[str, Any]]) -> None:
    dimension = np.array([row["dimension"] for row in rows])
    axes.fill_between(dimension, -10, 10, color="grey", alpha=0.15, linewidth=0, label="10 %")
    axes.axhline(0, color="grey", linewidth=0.8)
    for colour, name in zip(COLOURS, MANIFOLDS, strict=True):
        error = 100 * (np.array([row[name] for row in rows]) / dimension - 1)
        axes.plot(dimension, error, "o-", color=colour, markersize=4, label=LABELS[name])
    axes.set_xlabel("dimension of the manifold")
    axes.set_ylabel("error of the estimate, %")
    axes.set_ylim(-14, 14)
    axes.legend(fontsize=8, ncols=2)


def draw(path: Path, onto: Callable[[Any], None]) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from vinets.report.figures import STYLE

    with rc_context(STYLE | {"figure.facecolor": "white"}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        onto(figure.subplots())
        figure.savefig(path, metadata={"Date": None})


PARTS: dict[str, Callable[[str], None]] = {
    "norms": norms,
    "cancellation": cancellations,
    "manifolds": manifolds,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The theory in numbers.")
    parser.add_argument("--weights", type=Path, help="folder of the two ResNets")
    parser.add_argument("--data10", default="cifar10:data/cifar10", help="CIFAR-10")
    parser.add_argument("--data100", default="cifar100:data/cifar100", help="CIFAR-100")
    parser.add_argument("--only", choices=["complexity", *PARTS], help="one part")
    arguments = parser.parse_args()
    line = shlex.join(["python", "-m", "benchmarks.theory", *sys.argv[1:]])
    if arguments.weights and arguments.only in (None, "complexity"):
        complexities(arguments.weights, (arguments.data10, arguments.data100), line)
    for part_name, run in PARTS.items():
        if arguments.only in (None, part_name):
            run(line)
