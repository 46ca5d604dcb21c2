r"""The detection of images of none of a network's classes, by several scores.

The first score takes distances to the classes at several layers. At every layer, the *margin*
between :math:`\log K_{(1)}` of the nearest class and the mean of
:math:`\log K_{(2)}, \dots, \log K_{(10)}` tells examples between the classes. The distance
:math:`\log K_0` to all training examples as one class, in all components, tells those that are far
from everything, as far as it exceeds a limit. Both are standardised on examples of the classes that
neither the network nor the distances have seen, and the limits are such that 1 % of these, over all
layers, are beyond one. The score is the mean of the margins plus the sum of the excesses; the
energy of the logits counts as much as all margins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, call, device_of, each, evaluating, logits_of
from vinets.core.progress import Progress, Silent
from vinets.data import DataSplit, ImageSource, Preprocessing, Source, load_data
from vinets.data.conversion import draw_from
from vinets.data.source import choose_per_class
from vinets.data.synthetic import noise, textures
from vinets.heads.class_distances import (
    ClassDistances,
    ClassSpace,
    choose_space,
    fit_distances,
    spaces,
    try_spaces,
)
from vinets.latent.cut import cut_points
from vinets.latent.reader import LatentReader, classifier_of
from vinets.networks.network import CutNetwork
from vinets.scores.scores import SCORES, Activations, energy_of, labels_of, rates

IMAGES_BY_RULE = {"noise": noise, "textures": textures}
CHOSEN_LAYERS = 5  # layers whose distances are taken together, unless a user names others
BATCH_SIZE = 256
WHOLE_SPACE = ClassSpace(512)  # the monomials in which all training examples are one class
MIN_DEVIATION = 1e-12  # stands for the deviation of a value that is the same for all examples
BEYOND_LIMITS = 0.01  # share of examples of the classes that are beyond a limit, over all layers
NEXT_CLASSES = 9  # classes behind the nearest one that a margin averages over


# --- distances at several layers --------------------------------------------------------------


def standardizer(values: Tensor) -> Callable[[Tensor], Tensor]:
    """Return a function that tells values in deviations from the mean of those (m,) given here."""
    mean, deviation = float(values.mean()), max(float(values.std()), MIN_DEVIATION)
    return lambda others: (others - mean) / deviation


@dataclass(frozen=True, eq=False)
class LayerDistances:
    """The distances at one layer, standardised."""

    distances: ClassDistances
    whole: ClassDistances  # distance to all examples as one class
    standard_margin: Callable[[Tensor], Tensor]
    standard_log: Callable[[Tensor], Tensor]  # for log K of the distance to all examples
    limit: float  # largest standardised log K of examples that are not far from everything


@dataclass(frozen=True, eq=False)
class LayerScore:
    """The score of examples by their features at every layer and their energy."""

    layers: Mapping[str, LayerDistances]
    standard_energy: Callable[[Tensor], Tensor]

    @torch.no_grad()
    def __call__(self, seen: Activations) -> Tensor:
        """Return scores (m,), larger for stranger examples."""
        margins, excess = [], torch.zeros_like(seen.logits[:, 0])
        for name, layer in self.layers.items():
            features = seen.layers[name]
            margins.append(layer.standard_margin(distance_margin(layer.distances, features)))
            log = layer.standard_log(layer.whole(features).log()[:, 0])
            excess = excess + (log - layer.limit).clamp_min(0)
        energy = self.standard_energy(energy_of(seen.logits))
        return (torch.stack(margins).mean(0) + energy) / 2 + excess


@torch.no_grad()
def fit_layer_score(
    train: Activations, held: Activations, candidates: Sequence[ClassSpace] | None = None
) -> LayerScore:
    """Fit distances at every layer to training examples.

    Those that are ``held`` are examples of the same classes that the network was not trained on.
    Layer by layer the space is chosen in which their classes are likeliest, among ``candidates`` or
    those of :func:`vinets.heads.class_distances.spaces`; values are standardised on them, too.
    """
    labels, truth = labels_of(train), labels_of(held)
    classes = int(labels.max()) + 1
    scores = {}
    for name, points in train.layers.items():
        new = held.layers[name]
        tried = try_spaces(points, labels, candidates or spaces(), classes, held=(new, truth))
        distances = fit_distances(points, labels, choose_space(tried).space, classes)
        whole = fit_distances(points, torch.zeros_like(labels), WHOLE_SPACE, 1)
        logs, margins = whole(new).log()[:, 0], distance_margin(distances, new)
        far = standardizer(logs)
        limit = far(logs).quantile(1 - BEYOND_LIMITS / len(train.layers))
        standard = standardizer(margins)
        scores[name] = LayerDistances(distances, whole, standard, far, float(limit))
    return LayerScore(scores, standardizer(energy_of(held.logits)))


def distance_margin(distances: ClassDistances, features: Tensor) -> Tensor:
    """Subtract from the least log K the mean of the next ones, for features (m, D): (m,)."""
    logs = torch.cat([distances(part).log().sort(1).values for part in features.split(512)])
    return logs[:, 0] - logs[:, 1 : 1 + NEXT_CLASSES].mean(1)


# --- a network and its images -----------------------------------------------------------------


@dataclass(frozen=True)
class Detection:
    """How well one score detects one out-of-distribution data set."""

    score: str
    data: str  # the out-of-distribution data set
    auroc: float
    fpr95: float  # share of its images that pass where 95 % of the network's own do
    seconds: float  # time to score the examples of the network's own data


def ood_images(spec: str, preprocessing: Preprocessing, count: int, seed: int) -> Tensor:
    """Draw ``count`` images that belong to no class, as the network takes them.

    ``spec`` is ``"noise"``, ``"textures"``, or images as for :func:`vinets.data.load_data`, of
    which the test part is made as large and as colourful as the network's own.
    """
    shape = preprocessing.channels, *preprocessing.size
    if spec in IMAGES_BY_RULE:
        return preprocessing(IMAGES_BY_RULE[spec](count, shape, seed))
    try:
        drawn = draw_from(load_data(spec, seed=seed).test, count, seed)
    except ValueError as error:
        raise ValueError(f"{error} Images by rule are 'noise' and 'textures'.") from None
    if not isinstance(drawn, ImageSource):
        raise ValueError(f"{spec} has no images. Pass images, 'noise' or 'textures'.")
    images = drawn.images[:].cpu().float()
    if images.shape[1] != shape[0]:
        images = images.mean(1, keepdim=True).expand(-1, shape[0], -1, -1)
    if images.shape[2:] != shape[1:]:
        images = F.interpolate(images, shape[1:], mode="bilinear", align_corners=False)
    return preprocessing(images.round().to(torch.uint8))


def choose_layers(network: nn.Module, example: Tensor) -> list[str]:
    """Choose layers, by name, evenly spread from the middle of a network to its end.

    In a network behind a cut they are in its backbone. The logits are not among them.
    """
    if isinstance(network, CutNetwork):
        names = [f"backbone.{point.name}" for point in cut_points(network.backbone, example)]
    else:
        names = [point.name for point in cut_points(network, example)]
        names = names[:-1] or names
    later = names[len(names) // 3 :]
    places = torch.linspace(0, len(later) - 1, CHOSEN_LAYERS).tolist()
    return list(dict.fromkeys(later[round(k)] for k in places))


@torch.no_grad()
def read_activations(
    network: nn.Module,
    layers: Sequence[str],
    classifier: nn.Linear | None,
    batches: Iterable[Inputs],
    labels: Tensor | None = None,
) -> Activations:
    """Run a network over batches, and keep the outputs of its layers, averaged over positions.

    The features are the input of its ``classifier``, or without one the output of the last layer.
    """
    kept: dict[str, list[Tensor]] = {name: [] for name in layers}
    features: list[Tensor] = []
    logits: list[Tensor] = []
    mean = LatentReader("mean_token")

    def keep(name: str, module: nn.Module, inputs: object, output: object) -> None:
        kept[name].append(mean(output)[..., 0].float())

    def keep_input(module: nn.Module, inputs: tuple[Tensor]) -> None:
        features.append(inputs[0].float())

    with ExitStack() as hooks, evaluating(network):
        for name in layers:
            layer = network.get_submodule(name)
            hooks.enter_context(layer.register_forward_hook(partial(keep, name)))
        if classifier is not None:
            hooks.enter_context(classifier.register_forward_pre_hook(keep_input))
        for x in batches:
            logits.append(logits_of(call(network, x)).float())
    outputs = {name: torch.cat(parts) for name, parts in kept.items()}
    last = torch.cat(features) if features else outputs[layers[-1]]
    return Activations(last, torch.cat(logits), labels, outputs)


def compare_scores(
    network: nn.Module,
    data: DataSplit,
    ood: Mapping[str, Tensor],
    *,
    layers: Sequence[str] | None = None,
    per_class: int = 512,
    count: int = 2000,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Detection]:
    """Measure AUROC and FPR95 of every score: test examples of ``data`` against every other set.

    Parameters
    ----------
    network : Module
        A classifier of images, whole or behind a cut.
    data : DataSplit
        The data of its classes: scores are fitted to the training part.
    ood : mapping
        Names of out-of-distribution sets to their inputs; see :func:`ood_images`.
    layers : sequence of str, optional
        Layers whose distances are taken together; by default those of :func:`choose_layers`.
    per_class, count, seed
        Training examples of a class, test examples, and the seed of both draws. Distances are
        standardised on a quarter of the test examples; the others are judged.
    """
    watch = progress or Silent()
    device = device_of(network)
    example = each(data.train.example(), lambda t: t.to(device))
    if not isinstance(example, Tensor):
        raise ValueError("Out-of-distribution scores need a network whose input is one tensor.")
    chosen = list(layers or choose_layers(network, example))
    for name in set(chosen) - {name for name, _ in network.named_modules() if name}:
        accepted = "names of layers of the network"
        raise parameter_error("ood", "layers", accepted, name, "vinets cuts lists them.")
    classifier: nn.Linear | None = None
    with suppress(ValueError):  # a last layer that these scores do not know
        classifier = classifier_of(network, example)
    reader = partial(read_activations, network, chosen, classifier)
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(seed))[:count]
    quarter = len(order) // 4
    if quarter < 2:
        raise ValueError(
            f"{len(order)} test examples are too few to compare scores on. Pass 8 or more."
        )
    watch.start("out-of-distribution scores", 3 + len(ood))

    def read(source: Source) -> Activations:
        batches = (x for x, _ in source.batches(BATCH_SIZE, device=device))
        seen = reader(batches, source.labels.to(device))
        watch.advance(1)
        return seen

    known = read(data.train.subset(choose_per_class(data.train.labels, per_class, seed)))
    held = read(data.test.subset(order[:quarter].sort().values))
    ours = read(data.test.subset(order[quarter:].sort().values))
    others = {}
    for name, inputs in ood.items():
        others[name] = reader(part.to(device) for part in inputs.split(BATCH_SIZE))
        watch.advance(1)
    scores: dict[str, Callable[[Activations], Tensor]] = {"distances": fit_layer_score(known, held)}
    for name, kind in SCORES.items():
        if classifier is not None or not kind.needs_classifier:
            scores[name] = kind(classifier).fit(known)
    detections: list[Detection] = []
    for name, score in scores.items():
        begin = time.perf_counter()
        inside = score(ours)
        seconds = time.perf_counter() - begin
        for title, seen in others.items():
            detections.append(Detection(name, title, *rates(inside, score(seen)), seconds))
    return detections
