"""The networks that polynomials are compared with, on the same backbone and of like size."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import getattr_static
from typing import TypeVar

import torch
from torch import Tensor, nn

from vinets.core.device import Inputs, device_of
from vinets.core.settings import Shaping
from vinets.heads import HEADS, PLACEMENTS, Head, PolynomialHead, Reference
from vinets.latent.collect import Latents
from vinets.latent.reader import classifier_of, sees_negative
from vinets.models.facts import example_inputs
from vinets.networks.network import CutNetwork, network_of
from vinets.runs.build import seeded

T = TypeVar("T")

SHAPING = Shaping()
POINTS = 20_000  # enough to standardise monomials
INHERITED = getattr_static(Head, "beside")


def baselines(
    network: CutNetwork,
    latents: Latents,
    *,
    model: nn.Module | None = None,
    max_degree: int = 5,
    seed: int = 0,
) -> dict[str, CutNetwork]:
    """Networks with other heads behind the same cut, untrained.

    Parameters
    ----------
    network : CutNetwork
        A VI-Net, or a network with a product head; its backbone is shared.
    latents : Latents
        What it was built on.
    model : Module or None, default=None
        The uncut network, for baselines that take its classifier over; without it there are none.
    max_degree : int, default=5
        Of the random monomials.
    seed : int, default=0
        Of random monomials and initial weights.

    Returns
    -------
    dict
        Label to network, for every head that offers itself beside this one; see
        :meth:`vinets.heads.Head.beside`. Of those in vinets: linear heads on the flat and on the
        pooled map, and for the global placement on the components that the polynomials see; an
        MLP of about as many parameters as the polynomial head; the same head with random monomials,
        of any degree up to ``max_degree`` and of the same degrees; for the local placement also
        with ReLU. Products have ReLU units and the projector of SimKD beside them instead.
    """
    if not network.head.placement:
        raise ValueError(
            "baselines are made for a VI-Net or a product head. "
            f"Got a head of kind {network.head.kind!r} instead."
        )
    reference = reference_to(
        latents,
        lambda: network.head,
        max_degree=max_degree,
        seed=seed,
        placement=network.head.placement,
        model=model,
    )
    made: dict[str, CutNetwork] = {}
    for one in _draw(reference):
        other = network_of(network.backbone, network.reader, one, network.record)
        # heads from elsewhere may bring a label that is taken
        name = one.label if one.label not in made else f"{one.label} ({one.kind})"
        made[name] = other.to(latents.device)
    return made


def reference_to(
    latents: Latents,
    head: Callable[[], Head],
    *,
    max_degree: int = 5,
    seed: int = 0,
    placement: str = "global",
    shaping: Shaping = SHAPING,
    model: nn.Module | None = None,
) -> Reference:
    """What baselines of polynomials are made from; the head is made when one of them needs it."""
    made = cache(head)

    @torch.no_grad()
    def points() -> Tensor:
        """Some of those (m, n) that the polynomials of the head are evaluated at."""
        one = made()
        if not isinstance(one, PolynomialHead):
            raise ValueError(f"a head of kind {one.kind!r} has no variables of polynomials.")
        device = one.linear.weight.device
        parts = [one.variables(z.to(device)).flatten(0, -2) for z, _ in latents.store.chunks(256)]
        every = torch.cat(parts)
        # drawn on the CPU, so that every device gets the same points
        order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))
        return every[order[:POINTS].to(device)]

    def asked(question: Callable[[nn.Module, Inputs], T]) -> T:
        assert model is not None
        return question(model, example_inputs(latents.record.inputs, 2, device_of(model)))

    return Reference(
        latents.shape,
        latents.n_classes,
        made,
        points,
        max_degree,
        seed,
        shaping,
        None if model is None else lambda: asked(classifier_of),
        lambda: asked(sees_negative),
        placement,
    )


def kinds_beside(placement: str) -> list[str]:
    """Kinds of the heads that offer themselves beside polynomials of that placement, by rank."""
    # a head that leaves beside() as it is makes no baseline
    return [
        head.kind
        for head in _ranked()
        if placement in head.stands_beside and getattr_static(head, "beside") is not INHERITED
    ]


def kinds() -> list[str]:
    """Kinds of all heads that polynomials of some placement are compared with, by rank."""
    found = {kind for placement in PLACEMENTS for kind in kinds_beside(placement)}
    return [head.kind for head in _ranked() if head.kind in found]


def labels() -> list[str]:
    """Their labels."""
    return list(dict.fromkeys(HEADS[kind].label for kind in kinds()))


def _ranked() -> list[type[Head]]:
    return sorted(HEADS.values(), key=lambda head: (head.rank, head.kind))


def baseline(kind: str, reference: Reference) -> Head:
    """The one head of this kind that :func:`baselines` would make, with the same weights.

    The reference is asked only for what heads up to this one need of it.
    """
    wanted = HEADS[kind]
    made = _draw(reference, wanted)
    if not made or type(made[-1]) is not wanted:
        offered = ", ".join(type(head).kind for head in _draw(reference))
        raise ValueError(f"A head of kind {kind!r} is no baseline here. There are: {offered}.")
    return made[-1]


def _draw(reference: Reference, last: type[Head] | None = None) -> list[Head]:
    """Untrained heads by rank, perhaps up to one.

    They draw their weights one after another from one generator. To get the weights of one, those
    before it have to be drawn as well; heads of a higher rank, which anybody may add, change none.
    """
    made: list[Head] = []
    # a head of a given size is made without the polynomials, which those before it may ask for
    alone = last is not None and reference.shaping.head_parameters is not None
    with seeded(reference.seed):
        for kind in _ranked():
            if kind is not last and (alone or reference.placement not in kind.stands_beside):
                continue
            head = kind.beside(reference)
            if head is not None:
                made.append(head)
            if kind is last:
                break
    return made
