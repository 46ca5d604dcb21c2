"""A truncated backbone with a head: the VI-Net, and others under the same interface."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from vinets.algebra.polynomial import Polynomial
from vinets.core.checks import DoubtWarning
from vinets.core.device import call, device_of, evaluating
from vinets.core.tensors import facts_of
from vinets.data import DataSplit, Source
from vinets.data.digest import examples_digest, identify
from vinets.data.transforms import preprocessing_of
from vinets.heads import BuildFacts, DistanceHead, Head, PolynomialHead
from vinets.heads.class_distances import ClassDistances
from vinets.latent.collect import Latents
from vinets.latent.reader import LatentReader
from vinets.models.origin import Record, example_inputs, remember_training, trained_on
from vinets.models.weights import load_weights

# The layers that are counted where the last ones are tuned; a norm goes with the one before it.
WEIGHTED = (nn.modules.conv._ConvNd, nn.Linear, nn.Embedding, nn.MultiheadAttention)
NOTE = "trained_on"  # in a file of weights


class CutNetwork(nn.Module):
    """Backbone up to a cut, reader that makes latents (B, C, P), head that makes logits.

    The backbone, of :func:`vinets.truncate`, is frozen: it stays in eval mode whatever
    :meth:`train` says, and its parameters ask for no gradients; unless :meth:`thaw` says so.
    """

    def __init__(
        self, backbone: nn.Module, reader: LatentReader, head: Head, record: Record
    ) -> None:
        super().__init__()
        # Weights are shared with the network that was cut, flags such as requires_grad are not.
        # deepcopy takes what its memo holds for copied already.
        shared: dict[int, Any] = {
            id(p): nn.Parameter(p.detach(), requires_grad=False) for p in backbone.parameters()
        }
        shared |= {id(b): b for b in backbone.buffers()}
        self.backbone = copy.deepcopy(backbone, shared).eval()
        self.reader = reader
        self.head = head
        self.record = record
        self.distances: ClassDistances | None = None  # what vinets.attach_distances fits
        self._moving: tuple[str, ...] = ()  # modules of the backbone that train() may switch
        self._settled = False  # whether it was said, or is known, that the backbone stays

    def train(self, mode: bool = True) -> Self:
        """Switch the head, and what :meth:`thaw` lets move, to training mode or back."""
        super().train(mode)
        parts = [*self.backbone.parameters()]
        if mode and parts and not self._settled and not any(p.requires_grad for p in parts):
            self._settled = True
            warnings.warn(
                "Only the head will train, because the backbone is frozen. Call thaw() before you "
                "make an optimiser to train both, or freeze() to train the head without a warning.",
                DoubtWarning,
                stacklevel=2,
            )
        self.backbone.eval()
        for name in self._moving:
            self.backbone.get_submodule(name).training = mode
        return self

    def thaw(self, layers: int | None = None, *, norms: bool = True) -> list[nn.Parameter]:
        """Let the backbone be trained, or its last ``layers`` with weights; these are returned.

        The backbone becomes the network's own: neither the uncut network nor others behind the same
        cut change with it. Statistics of batch normalisation move in training mode if ``norms``.
        """
        self.backbone = copy.deepcopy(self.backbone)
        names = {m: name for name, m in self.backbone.named_modules() if not any(m.children())}
        called: dict[nn.Module, None] = {}  # in the order of a forward pass
        watch = register_module_forward_pre_hook(lambda module, _: called.setdefault(module))
        with evaluating(self.backbone), watch:
            call(self.backbone, example_inputs(self.record.inputs, 2, device_of(self)))
        order = [module for module in called if module in names]
        weighted = [i for i, module in enumerate(order) if isinstance(module, WEIGHTED)]
        first = 0 if layers is None or layers >= len(weighted) else weighted[-layers]
        chosen = order[first:]
        still = () if norms else (nn.modules.batchnorm._BatchNorm,)
        self._moving = tuple(names[module] for module in chosen if not isinstance(module, still))
        tuned = [p for module in chosen for p in module.parameters(recurse=False)]
        if layers is None:  # those of modules that are read without being called, too
            tuned = list(self.backbone.parameters())
        tuned = list(dict.fromkeys(tuned))  # layers may share weights
        for p in tuned:
            p.requires_grad_(p.is_floating_point())
        return tuned

    def freeze(self) -> None:
        """Take :meth:`thaw` back; the backbone keeps its weights."""
        self._moving, self._settled = (), True
        self.backbone.eval().requires_grad_(False)

    def set_preprocessing(self, way: Any) -> Self:
        """Tell how images become inputs, for ``vinets predict`` and exported files.

        ``way`` is what :func:`vinets.data.preprocessing_of` takes.
        """
        self.record = replace(self.record, preprocessing=preprocessing_of(way).to_dict())
        return self

    def latents(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        """Return what flows through the cut, (B, C, P)."""
        output = self.backbone(**named) if x is None else self.backbone(x)
        return self.reader(output)

    def forward(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        return self.head(self.latents(x, **named))

    def distance(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        """Return how far inputs are from every class, (B, K): Christoffel functions, at least 1.

        They belong to the head of a network that was built without training, or were given to
        the network by :func:`vinets.attach_distances`.
        """
        distances = self.distances
        if distances is None and isinstance(self.head, DistanceHead):
            distances = self.head.distances
        if distances is None:
            raise ValueError(
                "This network knows no distances to its classes. Fit them with "
                "vinets.attach_distances(network, train_data)."
            )
        return cast(Tensor, distances(self.latents(x, **named).mean(-1)))

    def folded(self) -> Self:
        """Return the network for inference, statistics of training folded into coefficients.

        Outputs agree up to rounding. The backbone is shared, the head is new.
        """
        result = copy.copy(self)
        result._modules = dict(self._modules)  # a shallow copy would share it, and lose our head
        result.head = self.head.folded()
        return result.eval()

    def parts(self) -> dict[str, int]:
        """Count the parameters that each part stores: backbone, projection, monomials, ..."""
        stored = sum(p.numel() for p in self.backbone.parameters())
        parts = {"backbone": stored} | self.head.parts()
        if self.distances is not None:
            parts["distances"] = sum(self.distances.parts().values())
        return parts

    def _repr_html_(self) -> str:
        from vinets.report import Column, Table
        from vinets.report.html import in_notebook

        columns = "part", Column("parameters", format=",")
        rows = [*self.parts().items(), ("all", sum(self.parts().values()))]
        said = f"{self.head.label} behind {self.record.cut}, {len(self.record.classes)} classes"
        return in_notebook(Table.from_rows("parts", said, columns, rows))

    def save_pretrained(self, directory: str | Path) -> None:
        """Write ``config.json`` and ``model.safetensors`` into ``directory``."""
        from vinets.networks.storage import save_network

        save_network(self, directory)

    @classmethod
    def from_pretrained(cls, directory: str | Path, backbone: nn.Module | None = None) -> Self:
        """Read what :meth:`save_pretrained` wrote, or a network of the package by its name.

        Where the class of the uncut network is the user's own, pass one as ``backbone``; its
        weights do not matter.

        Examples
        --------
        >>> import torch
        >>> net = CutNetwork.from_pretrained("vinets/digits-cnn-products")
        >>> net.head.label, net(torch.zeros(2, 1, 8, 8)).shape
        ('product head', torch.Size([2, 10]))
        """
        from vinets.networks.storage import load_network

        network = load_network(directory, backbone)
        if not isinstance(network, cls):
            raise ValueError(
                f"{directory} holds a network with a head of kind {network.head.kind!r}, no "
                f"{cls.__name__}. Load it with CutNetwork.from_pretrained."
            )
        return network


class VINet(CutNetwork):
    """Truncated backbone, polynomials that vanish on the classes, linear layer.

    The polynomials were found as generators of class ideals: heads of kind ``vanishing`` and
    ``local``. Made by :func:`vinets.build`, trained by :func:`vinets.fine_tune`.
    """

    def polynomials(self, label: int) -> list[Polynomial]:
        """Return the polynomials that vanish on a class, by the position of its name.

        They are those that the network evaluates now, in its variables x0, x1, ..., with leading
        coefficient 1; training of the coefficients changes them.
        """
        assert isinstance(self.head, PolynomialHead)  # the heads of class ideals are such heads
        return self.head.polynomials.polynomials(label)


def network_of(backbone: nn.Module, reader: LatentReader, head: Head, record: Record) -> CutNetwork:
    """Make a :class:`VINet` if the polynomials come from class ideals, else a CutNetwork."""
    return (VINet if head.from_ideals else CutNetwork)(backbone, reader, head, record)


def put_behind(
    latents: Latents, head: Head, notes: dict[str, Any]
) -> tuple[CutNetwork, BuildFacts]:
    """Make a network of the truncated one that latents come from and a head, with its facts."""
    facts, head.facts = head.facts, None  # which a network need not carry around
    assert facts is not None  # Head.build knows them
    record = replace(latents.record, notes=notes)
    network = network_of(latents.backbone, latents.reader, head, record)
    return network.to(latents.device).eval(), facts


# --- what a network was trained on --------------------------------------------------------------


def remember_examples(network: nn.Module, source: Source) -> None:
    """Note that a network was trained on these examples, too."""
    remember_training(network, trained_on(network, then=examples_digest(source)))


def load_trained(model: nn.Module, path: str | Path) -> None:
    """Load weights, and what their file says about the training data."""
    remember_training(model, facts_of(load_weights(model, path), NOTE))


def refuse_seen(name: str, network: nn.Module, tested: DataSplit | Source) -> None:
    """Raise if a network was trained on what it is to be tested on, as far as digests tell."""
    known = trained_on(network)
    if not known:
        return
    test = tested.test if isinstance(tested, DataSplit) else tested
    assert isinstance(test, Source)
    if known.get("training") and known["training"] == examples_digest(test):
        raise ValueError(
            f"{name} was trained on these examples. Pass examples that it was not trained on, or "
            'part="train" to measure on these.'
        )
    if not isinstance(tested, DataSplit) or "content" not in known:
        return
    if known.get("examples"):
        same = known["examples"] == examples_digest(tested.train, test)
    else:  # an earlier release wrote no digest of the examples in any order
        sizes = [known.get("train"), known.get("test")]
        same = known.get("name") == tested.name and sizes == [len(tested.train), len(test)]
    if same and known["content"] != identify(tested):
        raise ValueError(
            f"{name} was trained on another split of {tested.name}. Pass the split_seed "
            "(--split-seed) of its training, or data that it was not trained on."
        )
