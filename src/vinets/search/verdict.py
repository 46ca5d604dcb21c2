"""A search in plain words."""

from __future__ import annotations

from collections.abc import Sequence

from vinets.core.checks import counted, format_bytes
from vinets.heads import ProductsHead
from vinets.measure.level import over_images, over_seeds
from vinets.search.result import Quantised, SearchResult, Tried

CLOSE = 0.2  # points by which a network in int8 has to be ahead to be called better
MUCH = 5.0  # points, above which a loss is spoken of
TOLERATED = 0.05  # of a latency, above the budget without a word


def verdict(result: SearchResult) -> str:
    """Which network it is, what it gains and loses, whether polynomials earned their place.

    And whether the uncut network in int8 would do better.
    """
    uncut, chosen = result.uncut, result.choice
    if chosen is None:
        return "Nothing smaller was found: the network has no cut that saves anything."
    said = [_choice(result, chosen)]
    if not result.met:
        said.append(f"The budget, {result.budget}, was not met: this is the nearest.")
    lost = 100 * (uncut.validation - chosen.accuracy)
    if lost > MUCH:
        said.append(
            f"It loses {lost:.1f} points on the validation examples, which is much: try a larger "
            "budget, more epochs, or more data."
        )
    rival = _other_kind(result.tried, chosen)
    if rival is not None:
        said.append(_against(chosen, rival, result.validation))
    whole = next((one for one in result.int8 if one.of == "uncut"), None)
    if whole is not None and int8_is_better(result, chosen, whole):
        said.append(_in_int8(result, chosen, whole))
    return " ".join(said)


def int8_is_better(result: SearchResult, chosen: Tried, whole: Quantised) -> bool:
    """Whether the uncut network in int8 has more of what the budget asks for than the choice.

    It has to be within the limits, in bytes of its file and in time as it was measured. With a
    drop, what takes fewer bytes is better; without, what is more accurate.
    """
    budget, cost = result.budget, result.uncut.cost
    kept = budget.parameters is None or cost.parameters <= budget.parameters.of(cost.parameters)
    if budget.size:
        kept &= whole.size <= budget.size.of(cost.size)
    if budget.latency and cost.latency:
        kept &= whole.latency is not None and whole.latency <= budget.latency.of(cost.latency)
    if budget.drop is not None:
        kept &= whole.validation >= result.uncut.validation - budget.drop / 100
    if not kept or not result.met:
        return kept
    if budget.drop is not None:
        return whole.size < chosen.cost.size
    return 100 * (whole.validation - chosen.accuracy) >= CLOSE


def _in_int8(result: SearchResult, chosen: Tried, whole: Quantised) -> str:
    facts = f"{format_bytes(whole.size)}, {whole.test:.2%} right on the test examples"
    if whole.latency is not None and chosen.latency is not None:
        facts += f", {1e3 * whole.latency:.3g} ms a pass"
    ours = format_bytes(chosen.cost.size)
    if chosen.test is not None:
        ours += f", {chosen.test:.2%}"
    if whole.latency is not None and chosen.latency is not None:
        ours += f", {1e3 * chosen.latency:.3g} ms"
    said = f"The uncut network in int8 does better by this budget: {facts}, against {ours}."
    small = next((one for one in result.int8 if one.of == result.chosen), None)
    if small is not None:
        said += (
            f" In int8, this one takes {format_bytes(small.size)} and is right on {small.test:.2%}."
        )
    return said


def _choice(result: SearchResult, chosen: Tried) -> str:
    uncut, budget = result.uncut, result.budget
    share = chosen.cost.parameters / uncut.cost.parameters
    text = (
        f"{chosen.candidate.label} behind {chosen.candidate.cut} has "
        f"{chosen.cost.parameters:,} parameters, {share:.1%} of the uncut network"
    )
    if budget.latency and chosen.latency and uncut.latency:
        graph = ", recorded as a CUDA graph" if result.recorded else ""
        text += (
            f", takes {1e3 * chosen.latency:.3g} ms a pass at batch {budget.batch} on "
            f"{budget.where or 'this device'}{graph}, where the uncut one takes "
            f"{1e3 * uncut.latency:.3g} ms"
        )
        over = chosen.latency / budget.latency.of(uncut.latency) - 1
        if result.met and over > TOLERATED:
            text += (
                f" ({over:.0%} above the budget, which it kept to before it was trained: on this "
                "machine speeds differ from one measurement to the next)"
            )
    elif chosen.speed and uncut.speed:
        text += f", runs {chosen.speed / uncut.speed:.2f} times as fast"
    if chosen.test is not None and uncut.test is not None:
        points = 100 * (chosen.test - uncut.test)
        text += f", and is right on {chosen.test:.2%} of the test examples ({points:+.2f} points)"
    return f"{text}."


def _other_kind(tried: Sequence[Tried], chosen: Tried) -> Tried | None:
    """The best of the other kind, plain or polynomials, that is no larger and as long trained."""
    ours = chosen.candidate.polynomial
    others = [
        one
        for one in tried
        if one.candidate.polynomial != ours
        and one.cost.parameters <= 1.1 * chosen.cost.parameters
        and one.accuracies
    ]
    common = [one for one in others if _common(one, chosen)]
    return max(common, key=lambda one: one.accuracies[_common(one, chosen)], default=None)


def _common(one: Tried, other: Tried) -> int:
    """The longest training that both had; 0 if there is none."""
    return max(set(one.accuracies) & set(other.accuracies), default=0)


def _against(chosen: Tried, rival: Tried, examples: int) -> str:
    """Whether a polynomial head is ahead of a plain one, by :mod:`vinets.measure.level`."""
    epochs = _common(chosen, rival)
    if epochs in chosen.wrong and epochs in rival.wrong:
        found = over_images([(chosen.wrong[epochs], rival.wrong[epochs], examples)])
    else:  # results that were read from a file do not keep single answers
        found = over_seeds([100 * (chosen.accuracies[epochs] - rival.accuracies[epochs])])
    ours = (chosen if chosen.candidate.polynomial else rival).candidate
    head = ProductsHead.label if ours.head == "vi" else ours.label
    name = f"{rival.candidate.label} behind {rival.candidate.cut}, {rival.cost.parameters:,}"
    apart = f"{abs(found.value):.2f} points {'behind' if found.value > 0 else 'ahead'}"
    after = f"after {counted(epochs, 'epoch')} on the validation examples"
    if found.word == "level":
        said, apart = "makes no difference here", f"level with it ({apart}, {found.shown})"
    elif found.word == "not decided":
        said = "may or may not have earned its place, for one training does not decide it"
    else:
        earned = (found.value > 0) == chosen.candidate.polynomial
        said = "earned its place" if earned else "did not earn a place"
    return f"The {head} {said}: {name} parameters, is {apart} {after}."
