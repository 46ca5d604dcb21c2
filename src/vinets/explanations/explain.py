r"""An explanation of an answer: the polynomials that decided, where, and the nearest examples.

The margin between the answer and the next class is a sum over polynomials and positions, see
:mod:`vinets.explanations.sums`. It is compared with the margin of the *middle* of the two
classes, the mean over training examples of both with equal weight, which is a sum of the same
form. So

.. math:: \text{margin} = \text{margin of the middle}
    + \sum_{j,p} (W_{aj} - W_{rj})\,(v_{jp} - \bar v_{jp}) + \text{path}

holds exactly, and a polynomial that vanishes where the next class does not counts, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.core.device import call, device_of, each, evaluating
from vinets.core.progress import Progress, Silent
from vinets.data import DataSplit, ImageSource, Preprocessing, as_source, choose_per_class
from vinets.explanations.sums import HeadSum, head_sum
from vinets.heads.pieces import integrated_gradients
from vinets.latent.reader import LatentReader
from vinets.networks.network import CutNetwork

Picture = NDArray[np.float64] | None
QUANTILE_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Spread:
    """The values of a polynomial over examples."""

    examples: int
    quantiles: tuple[float, ...]  # at the levels 5, 25, 50, 75 and 95 %
    below: float  # share of the examples with a smaller value than the image


@dataclass(frozen=True)
class Contribution:
    """One polynomial, and what it adds to the margin."""

    index: int  # among the polynomials of the head
    polynomial: str  # its most influential terms, in the variables of the head
    weight: float  # linear weight of the answer less that of the next class
    value: float  # on the image, summed over the positions with their weights
    middle: float  # the same on the middle of the two classes
    contribution: float  # weight * (value - middle)
    smallest_on: str  # the class on which it is smallest, on average and in absolute value
    spreads: Mapping[str, Spread]  # its values on "answer", "next" and "others"
    map: tuple[tuple[float, ...], ...] | None  # the contribution by position; sums to it


@dataclass(frozen=True)
class Component:
    """A variable of the polynomials, its values averaged over the positions."""

    name: str  # c3 is channel 3 of the latents, z3 principal component 3
    value: float
    mean: float  # over the training examples
    std: float
    highest_on: str  # the class with the highest mean
    lowest_on: str


@dataclass(frozen=True, eq=False)
class Neighbour:
    """A training example, and how far its latents are."""

    index: int  # in the data
    label: str
    distance: float  # Euclidean, between latents
    picture: Picture = field(default=None, metadata={"plain": False})


@dataclass(frozen=True, eq=False)
class Explanation:
    """The reasons why a network gave its answer rather than the next class.

    ``margin == middle + contribution of every one of generators + others + path``. The entries of
    ``map`` and, where the network has tokens beside the grid, ``outside`` sum to ``margin -
    middle``.
    """

    answer: str
    next: str  # the class it is compared with
    probabilities: Mapping[str, float]  # those of the likeliest classes
    margin: float  # logit of the answer less that of the next class
    middle: float  # the same for the mean over training examples of the two classes
    generators: tuple[Contribution, ...]  # the largest contributions first, by absolute value
    others: float  # sum of the contributions of all other polynomials
    count: int  # polynomials in all
    path: float  # contribution of a linear path beside the polynomials
    map: tuple[tuple[float, ...], ...] | None  # by position; None for a head without positions
    outside: float  # contribution of positions outside of the grid, such as a class token
    sees: tuple[int, int] | None  # pixels that a position in the middle sees: height, width
    components: tuple[Component, ...]  # variables that the polynomials name
    neighbours: tuple[Neighbour, ...]  # the nearest first
    examples: int  # number of training examples it was compared with
    picture: Picture = field(default=None, metadata={"plain": False})  # (H, W, 1 or 3) in [0, 1]
    # Integrated gradients of the margin (H, W), which follow the image through the backbone.
    pixels: Picture = field(default=None, metadata={"plain": False})


def explain(
    net: CutNetwork,
    image: Tensor | Mapping[str, Tensor] | str | Path,
    data: Any,
    *,
    against: str | None = None,
    top: int = 8,
    neighbours: int = 8,
    per_class: int | None = 100,
    batch_size: int = 64,
    seed: int = 0,
    progress: Progress | None = None,
) -> Explanation:
    """Tell which polynomials of a network decided for its answer, and where on the map.

    Parameters
    ----------
    image : Tensor, mapping or path
        One input, with or without a batch of one, as the network takes it; or an image file.
    data : DataSplit or data source
        Examples to compare with; those of the training part of a split.
    against : str, optional
        The class to compare with; the likeliest but for the answer by default.
    top, neighbours : int
        Polynomials and training examples to name.
    per_class : int or None
        Examples of every class to compare with; None takes all. ``seed`` is that of their draw.

    Examples
    --------
    >>> from vinets import build
    >>> from vinets.data import digits
    >>> from vinets.models import digits_cnn
    >>> data = digits()
    >>> net, _ = build(digits_cnn(), data.train, "pool", head="products")
    >>> why = explain(net, data.test.example(), data, per_class=10)
    >>> parts = sum(one.contribution for one in why.generators) + why.others
    >>> abs(why.middle + parts - why.margin) < 1e-6
    True
    """
    total, device = head_sum(net.head), device_of(net)
    source = as_source(data.train if isinstance(data, DataSplit) else data)
    inputs = each(_input(net, image), lambda t: t.to(device))
    names = net.record.classes or source.classes
    with evaluating(net):
        output = call(net.backbone, inputs)
        latents: Tensor = net.reader(output)
        logits = net.head(latents)[0].double()
    answer = int(logits.argmax())
    if against is None:
        rival = int(logits.topk(2).indices[1])
    elif against in names:
        rival = names.index(against)
    else:
        known = ", ".join(names[:10]) + ", …" * (len(names) > 10)
        raise ValueError(f"The network knows no class {against!r}. Its classes are {known}.")
    if rival == answer:
        raise ValueError(f"The answer is {against!r} itself. Pass another class as 'against'.")
    chosen, watch = choose_per_class(source.labels, per_class, seed), progress or Silent()
    for k in (answer, rival):
        if k not in source.labels[chosen]:
            raise ValueError(
                f"The data has no example of class {names[k]!r} to compare with. Pass the data "
                "that the network was trained on."
            )
    examples = _TrainingExamples(total, latents, (answer, rival), source.labels[chosen])
    with evaluating(net):
        watch.start("training examples", len(chosen))
        for batch, labels in source.batches(batch_size, order=chosen, device=device):
            examples.add(call(net.latents, batch), labels)
            watch.advance(len(labels))
    grid = _grid_of(net.reader, output, latents.shape[2]) if total.local else None
    nearest, distances = [], torch.cat(examples.distances)
    for i in distances.topk(min(neighbours, len(distances)), largest=False).indices.tolist():
        index, picture = int(chosen[i]), None
        if isinstance(source, ImageSource):
            picture = (source.images[index].permute(1, 2, 0).cpu().double() / 255).numpy()
        label = names[int(source.labels[index])]
        nearest.append(Neighbour(index, label, float(distances[i]), picture))
    others: dict[str, Any] = {"neighbours": tuple(nearest), "sees": None}
    if isinstance(inputs, Tensor) and inputs.ndim == 4:  # an image
        first, second = (torch.tensor([k], device=device) for k in (answer, rival))
        pixels = integrated_gradients(net, inputs, first, second)[0]
        others["pixels"] = pixels.cpu().double().numpy()
        own, other = net.record.preprocessing, getattr(source, "preprocessing", None)
        used = other if own is None else Preprocessing.from_dict(own)
        if used is not None and inputs.shape[1] in (1, 3):
            mean, std = (inputs.new_tensor(m)[:, None, None] for m in (used.mean, used.std))
            shown = (inputs[0] * std + mean).clamp(0, 1)
            others["picture"] = shown.permute(1, 2, 0).cpu().double().numpy()
        others["sees"] = None if grid is None else _reach(net, inputs, grid)
    return _margin_as_sum(examples, logits, names, grid, top, others)


class _TrainingExamples:
    """Sums over the training examples, and values that are kept of each, batch by batch."""

    def __init__(
        self, total: HeadSum, latents: Tensor, pair: tuple[int, int], labels: Tensor
    ) -> None:
        self.total, self.latents, self.pair = total, latents, pair  # latents of the image
        self.contrast = torch.zeros_like(total.bias)  # (K,), times logits: the margin
        self.contrast[list(pair)] = self.contrast.new_tensor([1.0, -1.0])
        # Weights with which examples of a class count in the middle of the two classes.
        counts = torch.bincount(labels, minlength=len(self.contrast)).clamp_min(1)
        self.shares = self.contrast.abs() / (2 * counts).to(self.contrast)
        self.middle: Any = 0.0  # values (P, N) in the middle
        self.middle_path: Any = 0.0  # margin (P,) of the linear path in the middle
        self.terms: Any = [0.0, 0.0, 0]  # sums and squares (T,), and their count
        self.distances: list[Tensor] = []
        # For the examples of every batch: classes, values (m, N) and variables (m, n).
        self.batches: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, latents: Tensor, labels: Tensor) -> None:
        z = self.total.variables(latents)
        values, shares = self.total.values(z), self.shares[labels]
        self.middle = self.middle + torch.einsum("m,mpn->pn", shares, values)
        self.middle_path = self.middle_path + shares @ (self.total.path(latents) @ self.contrast)
        terms = self.total.spread_of(z).flatten(0, 1)
        more = terms.sum(0), terms.square().sum(0), len(terms)
        self.terms = [a + b for a, b in zip(self.terms, more, strict=True)]
        self.batches.append((labels, values.sum(1), z.mean(1)))
        self.distances.append((latents - self.latents).flatten(1).double().norm(dim=1))


@torch.no_grad()
def _margin_as_sum(
    examples: _TrainingExamples,
    logits: Tensor,
    names: tuple[str, ...],
    grid: tuple[int, int] | None,
    top: int,
    others: Mapping[str, Any],
) -> Explanation:
    """Write the margin as a sum over polynomials; ``others`` are the other fields."""
    total, (answer, rival), contrast = examples.total, examples.pair, examples.contrast
    labels, features, averages = map(torch.cat, zip(*examples.batches, strict=True))
    counts = torch.bincount(labels, minlength=len(names))

    def by_class(values: Tensor) -> Tensor:  # means, (K, ...); NaN without examples
        sums = values.new_zeros(len(names), values.shape[1]).index_add_(0, labels, values)
        return sums / counts[:, None]

    z = total.variables(examples.latents)
    values, weight = total.values(z)[0], contrast @ total.weight
    contributions = weight * (values - examples.middle)  # (P, N)
    path = (total.path(examples.latents) @ contrast)[0] - examples.middle_path
    by_polynomial, by_position = contributions.sum(0), contributions.sum(1)
    if total.local:
        by_position = by_position + path
    middle = contrast @ total.bias + weight @ examples.middle.sum(0) + examples.middle_path.sum()
    best = by_polynomial.abs().topk(min(top, len(by_polynomial))).indices
    smallest = by_class(features.abs()).nan_to_num(math.inf).argmin(0)
    sums, squares, count = examples.terms
    spread = (squares / count - (sums / count).square()).clamp_min(0).sqrt()
    generators = tuple(
        Contribution(
            index=j,
            polynomial=total.write(j, sums / count, spread),
            weight=float(weight[j]),
            value=float(values[:, j].sum()),
            middle=float(examples.middle[:, j].sum()),
            contribution=float(by_polynomial[j]),
            smallest_on=names[int(smallest[j])],
            spreads=_spreads(features[:, j], labels, examples.pair, float(values[:, j].sum())),
            map=_rows_of(contributions[:, j], grid),
        )
        for j in best.tolist()
    )
    # The variables that the polynomials name, in the order in which they do.
    written = " ".join(one.polynomial for one in generators)
    places = [total.names.index(name) for name in dict.fromkeys(re.findall(r"\b[cz]\d+", written))]
    variables = averages[:, places]
    mean, std, means = variables.mean(0), variables.std(0, correction=0), by_class(variables)
    highest, lowest = means.nan_to_num(-math.inf).argmax(0), means.nan_to_num(math.inf).argmin(0)
    rows = zip(places, mean.tolist(), std.tolist(), highest.tolist(), lowest.tolist(), strict=True)
    components = tuple(
        Component(total.names[j], float(z[0, :, j].mean()), usual, spread, names[high], names[low])
        for j, usual, spread, high, low in rows
    )
    shares = logits.softmax(0)
    likely = shares.topk(min(5, len(shares))).indices.tolist()
    likely += [rival] * (rival not in likely)
    return Explanation(
        answer=names[answer],
        next=names[rival],
        probabilities={names[k]: float(shares[k]) for k in likely},
        margin=float(middle + by_polynomial.sum() + path.sum()),
        middle=float(middle),
        generators=generators,
        others=float(by_polynomial.sum() - by_polynomial[best].sum()),
        count=len(by_polynomial),
        path=float(path.sum()),
        map=_rows_of(by_position, grid),
        outside=0.0 if grid is None else float(by_position[: -math.prod(grid)].sum()),
        components=components,
        examples=len(labels),
        **others,
    )


def _spreads(
    values: Tensor, labels: Tensor, pair: tuple[int, int], own: float
) -> dict[str, Spread]:
    """Describe the values (m,) of a polynomial on the two classes and on all others."""
    answer, rival = (labels == k for k in pair)
    spreads = {}
    for name, mask in (("answer", answer), ("next", rival), ("others", ~(answer | rival))):
        part = values[mask]
        if len(part):
            levels = torch.quantile(part, part.new_tensor(QUANTILE_LEVELS)).tolist()
            spreads[name] = Spread(len(part), tuple(levels), float((part < own).double().mean()))
    return spreads


def _input(net: CutNetwork, image: Any) -> Any:
    """Return the image as a batch of one."""
    if isinstance(image, str | Path):
        if net.record.preprocessing is None:
            raise ValueError(
                "The network has no preprocessing on record, so that it is not known how an image "
                "becomes its input. Train or build it on images, or pass a tensor."
            )
        return Preprocessing.from_dict(net.record.preprocessing).read(image)
    batch = {}
    for name, value in ({"": image} if isinstance(image, Tensor) else image).items():
        known = net.record.inputs.get(name)
        shape = tuple(value.shape[1:] if known is None else known["shape"])
        if tuple(value.shape) != shape and len(value) != 1:
            raise ValueError(
                f"explain takes one image. Got a batch of shape {tuple(value.shape)}; the network "
                f"takes inputs of shape {shape}."
            )
        batch[name] = value[None] if tuple(value.shape) == shape else value
    return batch[""] if isinstance(image, Tensor) else batch


# --- positions and pixels ---------------------------------------------------------------------


def _grid_of(reader: LatentReader, output: Any, positions: int) -> tuple[int, int] | None:
    """Return the height and width of the positions; None where there is only one."""
    if positions == 1:
        return None
    if reader.pool is not None:
        return reader.pool, reader.pool
    shape = reader.describe(output)
    if shape.height > 1:
        return shape.height, shape.width
    # tokens of square patches, perhaps with others before them
    side = math.isqrt(positions)
    return (side, side) if positions - side * side <= 2 else (1, positions)


def _reach(net: CutNetwork, inputs: Tensor, grid: tuple[int, int]) -> tuple[int, int] | None:
    """Return height and width of the pixels that latents in the middle depend on, if any."""
    # By gradients at noise, because at the image itself a ReLU may hide some.
    draw = torch.Generator().manual_seed(0)
    noise = torch.randn(8, *inputs.shape[1:], generator=draw).to(inputs).requires_grad_()
    latents = net.latents(noise)
    height, width = grid
    first = latents.shape[2] - height * width  # tokens outside of the grid come before it
    middle = latents[:, :, first + (height // 2) * width + width // 2]
    (gradient,) = torch.autograd.grad(middle.sum(), noise)
    reached = (gradient != 0).any(1).any(0)
    rows, columns = (reached.any(d).nonzero()[:, 0] for d in (1, 0))
    if not len(rows):
        return None
    return tuple(int(i.max() - i.min()) + 1 for i in (rows, columns))  # type: ignore[return-value]


def _rows_of(values: Tensor, grid: tuple[int, int] | None) -> tuple[tuple[float, ...], ...] | None:
    """Return the last values, one a position of the grid, row by row; None without a grid."""
    if grid is None:
        return None
    rows = values[len(values) - math.prod(grid) :].view(grid).tolist()
    return tuple(tuple(row) for row in rows)
