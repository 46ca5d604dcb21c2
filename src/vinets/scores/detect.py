"""How well a network detects images of none of its classes, by several scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import parameter_error
from vinets.core.device import call, device_of, each, evaluating, logits_of
from vinets.core.progress import Progress, Silent
from vinets.data import DataSplit, ImageSource, Preprocessing, Source, load_data
from vinets.data.source import choose_per_class
from vinets.data.synthetic import noise, textures
from vinets.latent.cut import cut_points
from vinets.latent.reader import classifier_of
from vinets.networks.network import CutNetwork
from vinets.scores import SCORES, Seen, fit_strangeness, rates

BY_RULE = {"noise": noise, "textures": textures}
LAYERS = 5  # whose distances are taken together
BATCH = 256


@dataclass(frozen=True)
class Detection:
    """How well one score detects one out-of-distribution data set."""

    score: str
    data: str  # the out-of-distribution data set
    auroc: float
    fpr95: float  # share of its images that pass where 95 % of the network's own do
    seconds: float  # to score the examples of the network's own data


def ood_images(spec: str, preprocessing: Preprocessing, count: int, seed: int) -> Tensor:
    """``count`` images that belong to no class, as the network takes them.

    ``spec`` is ``"noise"``, ``"textures"``, or images as for :func:`vinets.data.load_data`, of
    which the test part is made as large and as colourful as the network's own.
    """
    shape = preprocessing.channels, *preprocessing.size
    if spec in BY_RULE:
        return preprocessing(BY_RULE[spec](count, shape, seed))
    try:
        source = load_data(spec, seed=seed).test
    except ValueError as error:
        raise ValueError(f"{error} Images by rule are 'noise' and 'textures'.") from None
    if not isinstance(source, ImageSource):
        raise ValueError(f"{spec} has no images. Pass images, 'noise' or 'textures'.")
    order = torch.randperm(len(source), generator=torch.Generator().manual_seed(seed))
    images = source.images[order[:count].sort().values].cpu()
    if images.shape[1] != shape[0]:
        images = images.float().mean(1, keepdim=True).expand(-1, shape[0], -1, -1)
    if images.shape[2:] != shape[1:]:
        images = F.interpolate(images.float(), shape[1:], mode="bilinear", align_corners=False)
    return preprocessing(images.round().to(torch.uint8) if images.is_floating_point() else images)


def layers_of(network: nn.Module, example: Tensor) -> list[str]:
    """Names of :data:`LAYERS` layers, evenly spread from the middle of a network to its end.

    Of a network behind a cut they are in its backbone. The logits are not among them.
    """
    cut = isinstance(network, CutNetwork)
    body = network.backbone if isinstance(network, CutNetwork) else network
    names = [point.name for point in cut_points(body, example)]
    if not cut:
        names = names[:-1] or names
    later = names[len(names) // 3 :]
    chosen = [later[round(k)] for k in torch.linspace(0, len(later) - 1, LAYERS).tolist()]
    return [f"backbone.{name}" if cut else name for name in dict.fromkeys(chosen)]


class Viewer:
    """Runs a network and keeps what its layers return, averaged over positions."""

    def __init__(self, network: nn.Module, example: Tensor, layers: Sequence[str]) -> None:
        self.network, self.layers = network, tuple(layers)
        known = dict(network.named_modules())
        for name in self.layers:
            if not name or name not in known:
                remedy = "vinets cuts lists them."
                raise parameter_error(
                    "ood", "layers", "names of layers of the network", name, remedy
                )
        self.classifier: nn.Linear | None
        try:
            self.classifier = classifier_of(network, example)
        except ValueError:  # its last layer is none that these scores know
            self.classifier = None

    @torch.no_grad()
    def __call__(self, batches: Any, labels: Tensor | None = None) -> Seen:
        """Run over batches of inputs."""
        kept: dict[str, list[Tensor]] = {name: [] for name in self.layers}
        features: list[Tensor] = []
        logits: list[Tensor] = []

        def keep(name: str) -> Callable[[nn.Module, object, Tensor], None]:
            return lambda module, _, output: kept[name].append(_pooled(output).float())

        hooks = [
            self.network.get_submodule(name).register_forward_hook(keep(name))
            for name in self.layers
        ]
        if self.classifier is not None:
            hooks.append(
                self.classifier.register_forward_pre_hook(
                    lambda _, args: features.append(args[0].float())
                )
            )
        try:
            with evaluating(self.network):
                for x in batches:
                    logits.append(logits_of(call(self.network, x)).float())
        finally:
            for hook in hooks:
                hook.remove()
        found = {name: torch.cat(parts) for name, parts in kept.items()}
        last = torch.cat(features) if features else found[self.layers[-1]]
        return Seen(last, torch.cat(logits), labels, found)


def _pooled(output: Tensor) -> Tensor:
    """Mean over positions of a map (B, C, H, W) or of tokens (B, T, C)."""
    if output.ndim == 4:
        return output.mean((2, 3))
    return output.mean(1) if output.ndim == 3 else output.flatten(1)


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
    """AUROC and FPR95 of every score: test examples of ``data`` against every other set.

    Parameters
    ----------
    network : Module
        A classifier of images, whole or behind a cut.
    data : DataSplit
        What it was trained for: scores are fitted to the training part.
    ood : mapping
        Names of out-of-distribution sets to their inputs; see :func:`ood_images`.
    layers : sequence of str or None
        Whose distances are taken together; None is :func:`layers_of`.
    per_class, count, seed
        Training examples of a class, test examples, and the seed of both draws. A quarter of the
        test examples tells distances what is usual; the others are judged.
    """
    watch = progress or Silent()
    device = device_of(network)
    example = each(data.train.example(), lambda t: t.to(device))
    if not isinstance(example, Tensor):
        raise ValueError("Out-of-distribution scores need a network whose input is one tensor.")
    viewer = Viewer(network, example, layers or layers_of(network, example))
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(seed))[:count]
    quarter = len(order) // 4
    if quarter < 2:
        raise ValueError(
            f"{len(order)} test examples are too few to compare scores on. Pass 8 or more."
        )
    watch.start("out-of-distribution scores", 3 + len(ood))

    def view(source: Source) -> Seen:
        batches = (x for x, _ in source.batches(BATCH, device=device))
        seen = viewer(batches, source.labels.to(device))
        watch.advance(1)
        return seen

    known = view(data.train.subset(choose_per_class(data.train.labels, per_class, seed)))
    held = view(data.test.subset(order[:quarter].sort().values))
    ours = view(data.test.subset(order[quarter:].sort().values))
    others = {}
    for name, inputs in ood.items():
        others[name] = viewer(part.to(device) for part in inputs.split(BATCH))
        watch.advance(1)
    scores: dict[str, Callable[[Seen], Tensor]] = {"distances": fit_strangeness(known, held)}
    for name, kind in SCORES.items():
        if viewer.classifier is not None or not kind.needs_classifier:
            scores[name] = kind(viewer.classifier).fit(known)
    found: list[Detection] = []
    for name, score in scores.items():
        begin = time.perf_counter()
        usual = score(ours)
        seconds = time.perf_counter() - begin
        for title, seen in others.items():
            found.append(Detection(name, title, *rates(usual, score(seen)), seconds))
    return found
