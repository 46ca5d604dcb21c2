"""What a preset stands for: where to cut, and the settings that options change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vinets.models.presets import PRESETS, preset
from vinets.settings import BEST, Projecting, Pruning, TrialSettings

SIZES = ("tiny", "small", "medium", "large")


@dataclass(frozen=True)
class Start:
    """The network and the cut, where the preset says them, and the settings."""

    settings: TrialSettings
    backbone: str | None = None
    cut: str | None = None


def start_of(name: str | None, architecture: str | None = None, placement: str = "global") -> Start:
    """What the preset of that name starts from; without one, the paper's settings.

    A size of ``best`` is behind the cut of the paper's VI-Net of that size, of networks of that
    architecture. The sizes of the paper's VI-Nets are for polynomials of one vector an example.

    Examples
    --------
    >>> start_of("best-tiny", "resnet18").cut, start_of("VI-Net18-Tiny").settings.pruning.keep
    ('layer2.1.bn2', 128)
    """
    if name is None:
        return Start(TrialSettings())
    best, _, size = name.lower().partition("-")
    if best == "best":
        if not size:
            return Start(BEST)
        known = [p for p in PRESETS.values() if p.name.lower().endswith(f"-{size}")]
        if size not in SIZES:
            sizes = ", ".join(f"best-{each}" for each in SIZES)
            raise ValueError(f"There is no preset {name!r}. There are best, {sizes}.")
        found = [p for p in known if p.backbone == architecture]
        if not found:
            networks = " or ".join(p.backbone for p in known)
            raise ValueError(
                f"{name} is for a {networks}, given as MODEL. For other networks pass "
                "--preset best with --cut."
            )
        return Start(BEST, found[0].backbone, found[0].cut)
    chosen = preset(name)
    settings = TrialSettings()
    if placement == "global":
        settings = replace(
            settings,
            projecting=Projecting(components=chosen.components),
            pruning=Pruning(keep=chosen.generators_per_class, monomials=chosen.monomials),
        )
    return Start(settings, chosen.backbone, chosen.cut)
