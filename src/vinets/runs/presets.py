"""What a preset stands for: where to cut, and the settings that options change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any

from vinets.core.options import flag_of, gather
from vinets.core.settings import BEST, PAPER, PAPER_SIZES, Collecting, Shaping, TrialSettings
from vinets.models.presets import PRESETS, preset

SIZES = ("tiny", "small", "medium", "large")
HEAD_PARAMETERS = 180_000
"""Of the sizes of ``best``: with it, all have fewer parameters than the paper's VI-Nets."""

# Sizes that measurements say something else of; see docs/tuning.md.
_OWN: dict[tuple[str, str], dict[str, Any]] = {
    ("tiny", "resnet18"): {
        "shaping": Shaping(head_parameters=500_000, factors=3),
        "recipe": replace(BEST.recipe, temperature=4.0),
    }
}

NAMES = ("best", *(f"best-{size}" for size in SIZES), "paper", *PRESETS)

Given = Mapping[str, Mapping[str, Any]]
"""Options by group of the settings, only those that were given."""


@dataclass(frozen=True)
class Start:
    """The network and the cut, where the preset says them, and the settings."""

    settings: TrialSettings
    backbone: str | None = None
    cut: str | None = None


def start_of(
    name: str | None, architecture: str | None = None, placement: str | None = None
) -> Start:
    """What the preset of that name starts from.

    Without a name that is ``paper``, or ``best`` where products of forms are asked for. A size of
    ``best`` is behind the cut of the paper's VI-Net of that size, of networks of that architecture.
    The sizes of the paper's VI-Nets are for polynomials of one vector an example.

    Examples
    --------
    >>> start_of("best-tiny", "resnet18").cut, start_of("VI-Net18-Tiny").settings.pruning.keep
    ('layer2.1.bn2', 128)
    >>> start_of(None).settings.tuning.tune, start_of(None, None, "products").settings.tuning.tune
    ('head', 'all')
    """
    if name is None:
        name = "best" if placement == "products" else "paper"
    if name.lower() not in map(str.lower, NAMES):
        raise ValueError(f"There is no preset {name!r}. There are {', '.join(NAMES)}.")
    first, _, size = name.lower().partition("-")
    if first == "best":
        return _size_of_best(size, architecture) if size else Start(BEST)
    if first == "paper":
        return Start(paper_settings(architecture, placement))
    chosen = preset(name)
    return Start(paper_settings(chosen.backbone, placement), chosen.backbone, chosen.cut)


def paper_settings(
    architecture: str | None = None, placement: str | None = None, **changes: Any
) -> TrialSettings:
    """The paper's pipeline for a network of that architecture, with changes to single options.

    Examples
    --------
    >>> paper_settings("digits_cnn").projecting.components, paper_settings(psi=0.03).finding.psi
    (16, 0.03)
    """
    if placement == "local":  # the paper has no polynomials at every position
        start, own = TrialSettings(), {}
    else:
        start, own = PAPER, PAPER_SIZES.get(architecture or "", PAPER_SIZES["resnet18"])
    groups = {one.name: type(getattr(start, one.name)) for one in fields(start)}
    made: dict[str, Any] = {**gather("paper_settings", groups, own | changes, vars(start))}
    return TrialSettings(**made)


def _size_of_best(size: str, architecture: str | None) -> Start:
    known = [p for p in PRESETS.values() if p.name.lower().endswith(f"-{size}")]
    found = [p for p in known if p.backbone == architecture]
    if not found:
        networks = " or ".join(p.backbone for p in known)
        raise ValueError(
            f"best-{size} is for a {networks}, given as MODEL. For other networks pass "
            "--preset best with --cut."
        )
    usual = {"shaping": Shaping(head_parameters=HEAD_PARAMETERS)}
    settings = replace(BEST, **(usual | _OWN.get((size, found[0].backbone), {})))
    return Start(settings, found[0].backbone, found[0].cut)


def settings_with(start: TrialSettings, given: Given) -> TrialSettings:
    """The settings of a preset as options change them; an option without effect is refused."""
    made = replace(
        start, **{group: replace(getattr(start, group), **given[group]) for group in given}
    )
    if made.recipe.epochs == 0:
        return _without_training(made, given)
    for group, one, reason in _without_effect(made, given):
        if one.name in given.get(group, {}):
            raise ValueError(f"{flag_of(one)} {reason}")
    products = made.placing.placement == "products"
    if not products:  # their size belongs to products
        made = replace(made, shaping=Shaping(**given.get("shaping", {})))
    if not products or made.shaping.start == "ideal":
        # the few latents that best takes tell their shape, and are too few to find polynomials on
        most = given.get("collecting", {}).get("per_class", Collecting().per_class)
        made = replace(made, collecting=replace(made.collecting, per_class=most))
    return made


def _without_training(settings: TrialSettings, given: Given) -> TrialSettings:
    """The settings of a head in closed form, which takes few options."""
    for group, options in given.items():
        for name in options:
            if group not in ("collecting", "sampling", "timing") and name != "epochs":
                one = next(f for f in fields(getattr(settings, group)) if f.name == name)
                raise ValueError(
                    f"{flag_of(one)} has no effect on a closed form. Leave it out, or pass "
                    "--epochs of 1 or more."
                )
    most = given.get("collecting", {}).get("per_class", Collecting().per_class)
    return replace(settings, collecting=replace(settings.collecting, per_class=most))


def _without_effect(settings: TrialSettings, given: Given) -> Iterator[tuple[str, Field[Any], str]]:
    """Options that change nothing beside the others: group, field, and why with the remedy."""
    if settings.placing.placement != "products":
        reason = "is for products of forms. Leave it out, or pass --placement products."
        yield from _of(settings, "shaping", reason, but=("head_parameters",))  # of baselines, too
    else:
        asked = "placement" in given.get("placing", {})
        other = "another --placement" if asked else "--preset paper"
        reason = (
            "is for polynomials that are found on latents, and these are products of forms. "
            f"Leave it out, or pass {other}."
        )
        yield from _of(settings, "placing", reason, only=("linear_path",))
        yield from _of(settings, "vanishing", reason)
        ideal = settings.shaping.start == "ideal"  # generators are found, to start from
        yield from _of(settings, "projecting", reason, but=("components", "pca") if ideal else ())
        yield from _of(settings, "pruning", reason, but=("keep", "score") if ideal else ())
        if not ideal:
            yield from _of(settings, "finding", reason)
            yield from _of(settings, "collecting", reason, only=("per_class", "reuse"))
    if settings.tuning.tune == "head":
        reason = "is for a backbone that is tuned. Leave it out, or pass --tune all."
        yield from _of(settings, "tuning", reason, but=("tune",))
    else:
        reason = (
            f"is for a backbone that stays as it is, and --tune {settings.tuning.tune} changes it. "
            "Leave it out, or pass --tune head."
        )
        yield from _of(settings, "caching", reason)


def _of(
    settings: TrialSettings,
    group: str,
    reason: str,
    *,
    only: tuple[str, ...] | None = None,
    but: tuple[str, ...] = (),
) -> Iterator[tuple[str, Field[Any], str]]:
    for one in fields(getattr(settings, group)):
        if (only is None or one.name in only) and one.name not in but:
            yield group, one, reason
