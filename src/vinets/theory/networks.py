"""Spectral complexity of whole networks: plain ones, and a backbone with a head behind a cut."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from vinets.latent.reader import first_tensor
from vinets.nn.network import CutNetwork, example_inputs
from vinets.running import call, device_of, evaluating
from vinets.theory.complexity import Complexity, layer_norms
from vinets.theory.heads import HeadNorms, head_norms
from vinets.theory.layers import layers_of
from vinets.theory.lipschitz import average_pool_constant

__all__ = ["CutComplexity", "cut_complexity", "spectral_complexity"]


@dataclass(frozen=True)
class CutComplexity:
    """Norms of a backbone, the truncated network alone, and of the head behind its cut."""

    backbone: Complexity
    head: HeadNorms

    @property
    def whole(self) -> Complexity:
        """Of backbone and head, with the Lipschitz constants of the theorem."""
        return Complexity((*self.backbone.layers, *self.head.layers))

    @property
    def guaranteed(self) -> Complexity:
        """The same, also where variables of the polynomials may leave [-1, 1]."""
        return Complexity((*self.backbone.layers, *self.head.guaranteed()))


def spectral_complexity(
    network: nn.Module, example: Tensor | None = None, *, tolerance: float = 1e-4, seed: int = 0
) -> Complexity:
    """Spectral complexity of ``network`` at the size of ``example``.

    Parameters
    ----------
    network : Module
        Linear and convolutional layers, batch normalisation, Lipschitz activations, pooling and
        residual blocks; or a :class:`vinets.nn.CutNetwork` with such a backbone, a VI-Net for one.
        It is not changed, and counts in eval mode.
    example : Tensor or None, default=None
        A batch of inputs; one is enough. A :class:`vinets.nn.CutNetwork` knows its own.
    tolerance, seed
        Relative residual at which the spectral norms stop, and the seed of their random start.

    Examples
    --------
    >>> import torch
    >>> net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    >>> _ = nn.init.eye_(net[0].weight)
    >>> round(spectral_complexity(net, torch.zeros(1, 2)).R, 6)
    2.0
    """
    if isinstance(network, CutNetwork):
        return cut_complexity(network, example, tolerance=tolerance, seed=seed).whole
    if example is None:
        raise ValueError("spectral_complexity needs an example of the inputs of this network.")
    layers = layers_of(network, example)
    return Complexity(tuple(layer_norms(layer, tolerance, seed) for layer in layers))


def cut_complexity(
    network: CutNetwork, example: Tensor | None = None, *, tolerance: float = 1e-4, seed: int = 0
) -> CutComplexity:
    """Norms of a VI-Net or a baseline, backbone and head apart; as :func:`spectral_complexity`."""
    if example is None:
        known = example_inputs(network.record.inputs, device=device_of(network))
        if not isinstance(known, Tensor):
            raise ValueError("spectral complexity needs a network with one tensor as its input.")
        example = known
    layers = layers_of(network.backbone, example)
    norms = [layer_norms(layer, tolerance, seed) for layer in layers]
    with evaluating(network.backbone):
        output = first_tensor(call(network.backbone, example[:1]))
    constant = average_pool_constant(network.reader, tuple(output.shape[1:]))
    norms[-1] = replace(norms[-1], lipschitz=norms[-1].lipschitz * constant)
    channels, positions = network.reader(output).shape[1:]
    return CutComplexity(Complexity(tuple(norms)), head_norms(network.head, (channels, positions)))
