"""A search in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from vinets.search.budget import Budget
from vinets.search.result import Tried, Uncut

CLOSE = 0.2  # points, below which two networks are called level
MUCH = 5.0  # points, above which a loss is spoken of


def verdict(
    budget: Budget, uncut: Uncut, tried: Sequence[Tried], chosen: Tried | None, met: bool
) -> str:
    """Which network it is, what it gains and loses, and whether polynomials earned their place."""
    if chosen is None:
        return "Nothing smaller was found: the network has no cut that saves anything."
    said = [_choice(uncut, chosen)]
    if not met:
        said.append(f"The budget, {budget}, was not met: this is the nearest.")
    lost = 100 * (uncut.validation - chosen.accuracy)
    if lost > MUCH:
        said.append(
            f"It loses {lost:.1f} points on the validation examples, which is much: try a larger "
            "budget, more epochs, or more data."
        )
    rival = _other_kind(tried, chosen)
    if rival is not None:
        said.append(_against(chosen, rival))
    return " ".join(said)


def _choice(uncut: Uncut, chosen: Tried) -> str:
    share = chosen.cost.parameters / uncut.cost.parameters
    text = (
        f"{chosen.candidate.label} behind {chosen.candidate.cut} has "
        f"{chosen.cost.parameters:,} parameters, {share:.1%} of the uncut network"
    )
    if chosen.speed and uncut.speed:
        text += f", runs {chosen.speed / uncut.speed:.2f} times as fast"
    if chosen.test is not None and uncut.test is not None:
        points = 100 * (chosen.test - uncut.test)
        text += f", and is right on {chosen.test:.2%} of the test examples ({points:+.2f} points)"
    return f"{text}."


def _other_kind(tried: Sequence[Tried], chosen: Tried) -> Tried | None:
    """The best of the other kind, plain or polynomial, that is no larger and as long trained."""
    ours = chosen.candidate.head == "vi"
    others = [
        one
        for one in tried
        if (one.candidate.head == "vi") != ours
        and one.cost.parameters <= 1.1 * chosen.cost.parameters
        and one.accuracies
    ]
    common = [one for one in others if _common(one, chosen)]
    return max(common, key=lambda one: one.accuracies[_common(one, chosen)], default=None)


def _common(one: Tried, other: Tried) -> int:
    """The longest training that both had; 0 if there is none."""
    return max(set(one.accuracies) & set(other.accuracies), default=0)


def _against(chosen: Tried, rival: Tried) -> str:
    epochs = _common(chosen, rival)
    gain = 100 * (chosen.accuracies[epochs] - rival.accuracies[epochs])
    name = f"{rival.candidate.label} behind {rival.candidate.cut}, {rival.cost.parameters:,}"
    after = f"after {epochs} epoch{'s' if epochs > 1 else ''} on the validation examples"
    if abs(gain) < CLOSE:
        return f"Polynomials make no difference here: {name} parameters, is level {after}."
    earned = (gain > 0) == (chosen.candidate.head == "vi")
    word = "earned their place" if earned else "did not earn a place"
    apart = f"{abs(gain):.2f} points {'behind' if gain > 0 else 'ahead'}"
    return f"Polynomials {word}: {name} parameters, is {apart} {after}."
