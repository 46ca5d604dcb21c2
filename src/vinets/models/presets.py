"""The eight VI-Nets of the paper by name: the network, its cut and the number of polynomials."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from vinets.core.checks import parameter_error


@dataclass(frozen=True)
class Preset:
    """A VI-Net as the paper builds it.

    The paper tells roughly which share of the layers it removes, or gives no number;
    :attr:`vinets.CutPoint.removed` has the share as counted.
    """

    name: str  # as the paper has it, such as "VI-Net18-Small"
    backbone: str  # the network to cut, a name for create_model
    cut: str  # the module whose output becomes the latents
    base_parameters: int  # stored by the network up to the cut
    removed_in_paper: float | None
    components: int = 128  # principal components that the latents are reduced to
    generators_per_class: int = 128  # polynomials kept for each class
    monomials: int = 512  # kept for all classes together


PRESETS: dict[str, Preset] = {
    p.name: p
    for p in (
        Preset("VI-Net18-Tiny", "resnet18", "layer2.1.bn2", 675_392, 0.7),
        Preset("VI-Net18-Small", "resnet18", "layer3.1.bn1", 2_184_768, 0.5),
        Preset("VI-Net18-Medium", "resnet18", "layer4.0.bn1", 3_955_776, 0.2),
        Preset("VI-Net18-Large", "resnet18", "layer4.1.bn1", 8_808_512, None),
        Preset("VI-Net34-Tiny", "resnet34", "layer3.1.bn1", 2_849_600, 0.7),
        Preset("VI-Net34-Small", "resnet34", "layer3.3.bn1", 5_210_944, 0.5),
        Preset("VI-Net34-Medium", "resnet34", "layer4.1.bn1", 14_196_032, 0.2),
        Preset("VI-Net34-Large", "resnet34", "layer4.2.bn1", 18_916_672, None),
    )
}


def preset(name: str) -> Preset:
    """Return the preset called ``name``; upper and lower case are the same.

    Examples
    --------
    >>> preset("vi-net18-small").cut
    'layer3.1.bn1'
    """
    known = {key.lower(): value for key, value in PRESETS.items()}
    wanted = name.lower() if isinstance(name, str) else ""
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.3) or list(known)
    remedy = f"The nearest are {', '.join(known[key].name for key in near)}."
    raise parameter_error("preset", "name", "the name of a preset", name, remedy)


SIZES: dict[str, dict[str, Any]] = {
    "resnet18": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "resnet34": {"components": 128, "psi": 0.1, "max_degree": 5, "keep": 128, "monomials": 512},
    "digits_cnn": {
        **{"components": 16, "psi": 0.01, "max_degree": 2, "keep": 32, "monomials": None},
        **{"trained": "classifier", "augment": False, "weight_decay": 1e-4},
    },
}
"""Variables n, tolerance and degree for every network: as in the paper for CIFAR; on digits, of
which there are 1,348 to train on, what suits so few."""
