"""What a trial computes: one function for each task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.algebra.common_terms import count_monomials
from vinets.core.device import call, evaluating
from vinets.core.plain import as_plain
from vinets.core.progress import Notes
from vinets.data.images import at_once
from vinets.heads import HEADS, LastLayer, PolynomialHead, VanishingOptions
from vinets.heads.facts import VanishingFacts, class_means, measure_vanishing
from vinets.heads.vanishing import find_components, find_generators
from vinets.ideals.pruning import as_polynomials, prune
from vinets.measure import evaluate, measure_speed
from vinets.measure.dimension import class_dimensions
from vinets.networks.network import CutNetwork
from vinets.runs.setup import CHUNK, Cut, Setup, wrong_answers
from vinets.runs.trial import (
    DimensionFacts,
    IdealFacts,
    PolynomialFacts,
    Speed,
    SpeedFacts,
    TheoryFacts,
    TrainingFacts,
    Trial,
    TrialResult,
)
from vinets.theory import study
from vinets.training import History, Lessons, fine_tune
from vinets.training.epochs import Epoch, fit
from vinets.training.feed import ViewFeed
from vinets.training.last_layer import solve_classifier
from vinets.training.tune import criterion_of

RATIOS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the polynomials that are pruned, to count the monomials that are left."""

CHECKPOINTS = "checkpoints"


# --- ideals and dimension ---------------------------------------------------------------------


def find_ideals(cut: Cut, trial: Trial, folder: Path) -> TrialResult:
    """Find the ideals of the classes, and count what they take and what pruning leaves."""
    latents, options = cut.latents, trial.options
    assert isinstance(options, VanishingOptions)  # a trial of ideals is one of a VI-Net
    variables = find_components(latents, options, trial.seed)
    cut.progress.start("polynomials", 1)
    notes = Notes(cut.progress)
    generators = find_generators(latents, variables, options, trial.seed, notes)
    cut.progress.advance(1)
    ideals = generators.ideals
    pruned = {ratio: prune(ideals, generators.scores, 1.0 - ratio) for ratio in RATIOS}
    totals = ("steps", "nonzeros") if all(hasattr(one, "steps_") for _, one in ideals) else ()
    facts = IdealFacts(
        points=int(latents.fit.sum()),
        features=latents.shape[0] * latents.shape[1],
        variables=variables.points.shape[1],
        explained_variance=variables.explained,
        polynomials=ideals.n_generators,
        monomials=generators.monomials,
        seconds=generators.seconds,
        monomials_left={str(k): count_monomials(one.polynomials) for k, one in pruned.items()},
        by_class={str(k): count_monomials([as_polynomials(i.generators_)]) for k, i in ideals},
        **{name: sum(getattr(one.report_, name) for _, one in ideals) for name in totals},
    )
    return TrialResult(*cut.removed_and_shape(trial), ideals=facts)


def estimate_dimension(cut: Cut, trial: Trial, folder: Path) -> TrialResult:
    """Estimate the dimension of the latents of every class, before rescaling and projection."""
    latents = cut.latents
    chosen = latents.fit.to(latents.store.labels.device)
    points, labels = latents.store.tensor().flatten(1)[chosen], latents.store.labels[chosen]
    # The estimate needs more points of every class than neighbours.
    neighbours = min(20, max(2, len(points) // latents.n_classes - 2))
    estimate = class_dimensions(points, labels, neighbours=neighbours)
    per_class = {str(k): value for k, value in estimate.per_class.items()}
    facts = DimensionFacts(neighbours, per_class, estimate.mean, estimate.std)
    return TrialResult(*cut.removed_and_shape(trial), dimension=facts)


# --- training ---------------------------------------------------------------------------------


def train(cut: Cut, trial: Trial, folder: Path) -> TrialResult:
    """Train a head, fold it, test it, and save it where the trial says so."""
    network, report = cut.network(trial)
    setup, recipe, labels = cut.setup, cut.recipe(trial), cut.setup.test.labels
    built = _vanishing(cut, trial, network)
    # Only polynomials of a VI-Net have classes to vanish on.
    studied = trial.studied and built is not None
    polynomials = _polynomials(cut, trial, network) if studied else None
    checkpoints = folder / CHECKPOINTS / trial.name if trial.checkpoints else None
    # Cached latents stand for inputs as long as the backbone stays as it is.
    cached = recipe.projected and recipe.layers == 0
    # Variables of local heads are as many as the latents: too many to keep for all trials.
    local = getattr(network.head, "local", False)
    split = network.head.split() if cached and not local else None
    if not HEADS[trial.head].needs_training:
        # It was made in one step; its only epoch is on the latents that it was made from.
        fitted = evaluate(
            network.folded().head, cut.latents.store.chunks(1024), device=setup.device
        )
        epoch = Epoch(0, fitted.loss, fitted.accuracy, None, None, 0.0)
        history = History((epoch,), 1, recipe)
    elif split is not None:
        # fine_tune splits heads in the same way; here, trials that project alike share variables.
        front, behind = split
        views = cut.projected(trial, front)
        if recipe.trained == "classifier" and isinstance(behind, LastLayer):
            history = solve_classifier(behind.eval(), views.parts(), recipe)
        else:
            history = fit(
                behind,
                ViewFeed(views, seed=recipe.seed),
                recipe,
                criterion=criterion_of(network.head, recipe),
                directory=checkpoints,
                device=setup.device,
                stage=f"training {trial.head}",
                progress=cut.progress,
            )
    else:
        teacher: nn.Module | Lessons | None = None
        if recipe.distill or network.head.matches_features:
            teacher = cut.lessons if recipe.layers != 0 else setup.model
        history = fine_tune(
            network,
            setup.train if recipe.views is None else cut.views(trial),
            recipe=recipe,
            teacher=teacher,
            directory=checkpoints,
            progress=cut.progress,
        )
    folded = network.folded()
    if cached:
        wrong = wrong_answers(folded.head, _chunks(cut.test_latents, labels))
    else:
        wrong = wrong_answers(folded, setup.test, setup.device, progress=cut.progress)
    accuracy, vanishing = 1 - len(wrong) / len(labels), _vanishing(cut, trial, folded)
    if trial.save:
        notes = {} if vanishing is None else {"vanishing": as_plain(vanishing)}
        notes = folded.record.notes | notes | {"accuracy": accuracy}
        folded.record = replace(folded.record, notes=notes, data=setup.facts)
        folded.save_pretrained(folder / trial.save)
    if polynomials is not None:
        polynomials = replace(polynomials, trained=_values_by_class(cut, trial, folded))
    layer, details = getattr(network.head, "polynomials", None), dict[str, Any]()
    if layer is not None:
        details |= {"polynomials": len(layer.bias), "monomials": len(layer.monomials.terms)}
    if trial.detailed:
        details |= {"wrong": wrong, "uncut_wrong": setup.wrong, "tested": len(labels)}
        details |= {"history": history, "build": report}
    facts = TrainingFacts(
        accuracy=accuracy,
        uncut=setup.accuracy,
        train_accuracy=history.kept.accuracy,
        loss=history.kept.loss,
        parts=folded.parts(),
        seconds=history.seconds,
        best_epoch=history.best,
        capped=report.capped,
        vanishing_built=built,
        vanishing=vanishing,
        **details,
    )
    theory = _theory(setup, folded) if trial.studied else None
    place = cut.removed_and_shape(trial)
    return TrialResult(*place, training=facts, theory=theory, polynomials=polynomials)


def _values_by_class(cut: Cut, trial: Trial, network: CutNetwork) -> tuple[tuple[float, ...], ...]:
    """Average absolute values of polynomials (rows) on test examples of every class (columns)."""
    head = network.head
    assert isinstance(head, PolynomialHead)
    with evaluating(network):
        means, _, _ = class_means(head.polynomials, _test_variables(cut, trial, network))
    return tuple(tuple(float(f"{x:.3g}") for x in row) for row in means.T.tolist())


def _polynomials(cut: Cut, trial: Trial, network: CutNetwork) -> PolynomialFacts:
    """Describe the polynomials of a VI-Net before its training, and the shortest one in full."""
    head = network.head
    assert isinstance(head, PolynomialHead) and head.polynomials.owners is not None
    values, owners = _values_by_class(cut, trial, network), head.polynomials.owners.tolist()
    every = [p for k in sorted({*owners}) for p in head.polynomials.polynomials(k)]
    # A line is the shortest polynomial of all, and shows less than one that bends.
    lengths = [(p.degree < 2, sum(c != 0 for c in p.coefficients)) for p in every]
    shortest = min(range(len(every)), key=lengths.__getitem__)
    with torch.no_grad():
        points, labels = zip(*_test_variables(cut, trial, network), strict=True)
    sizes, label = every[shortest](torch.cat(points).double()).abs(), torch.cat(labels)
    means = tuple(float(sizes[label == k].mean()) for k in range(len(values[0])))
    text = every[shortest].text()
    return PolynomialFacts(tuple(owners), values, values, shortest, text, means)


def _theory(setup: Setup, network: CutNetwork) -> TheoryFacts:
    """Compute the complexities of a network and of the uncut one, and the theorem's bounds."""
    example = setup.train.example()
    assert isinstance(example, Tensor)  # the theory says nothing about other inputs
    size = at_once(setup.train, CHUNK, setup.device)
    batches = partial(setup.train.batches, size, device=setup.device)
    given = example.to(setup.device)
    studied = study(setup.model, network.record.cut, given, network=network, batches=batches)
    assert studied.network is not None  # because it was passed
    bounds = studied.network.head.bounds
    return TheoryFacts(
        studied.uncut.log10_R,
        studied.network.whole.log10_R,
        studied.network.guaranteed.log10_R,
        () if bounds is None else tuple(map(as_plain, bounds.bounds)),
        None if studied.corollary is None else studied.corollary.ratio(),
    )


def _chunks(inputs: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Split cached inputs and labels, because every monomial takes room for every example."""
    for part, own in zip(inputs.split(CHUNK // 4), labels.split(CHUNK // 4), strict=True):
        yield part.float(), own


def _vanishing(cut: Cut, trial: Trial, network: CutNetwork) -> VanishingFacts | None:
    """Measure how the polynomials of a VI-Net vanish on test images; None for other networks."""
    head = network.head
    if not (isinstance(head, PolynomialHead) and head.from_ideals):
        return None
    if head.polynomials.counts is None:  # a head of an earlier release does not know its classes
        return None
    with evaluating(network):
        seen = _test_variables(cut, trial, network)
        return measure_vanishing(head.polynomials, seen, trial.options.psi)  # type: ignore[union-attr]


def _test_variables(cut: Cut, trial: Trial, network: CutNetwork) -> Iterator[tuple[Tensor, Tensor]]:
    """Give all test examples as points in the variables of a head, with their labels."""
    head, setup = network.head, cut.setup
    assert isinstance(head, PolynomialHead)
    if trial.recipe.layers == 0:
        for z, y in _chunks(cut.test_latents, setup.test.labels):
            yield head.variables(z), y
    else:
        size = at_once(setup.test, CHUNK // 4, setup.device)
        for x, y in setup.test.batches(size, device=setup.device):
            yield head.variables(call(network.latents, x)), y


# --- speed ------------------------------------------------------------------------------------


def time_networks(cut: Cut, trial: Trial, folder: Path) -> TrialResult:
    """Measure images per second of the uncut network and of saved ones, which take turns."""
    setup = cut.setup
    cut.progress.start("timing", 1)
    networks: dict[str, nn.Module] = {trial.network or "uncut": setup.model}
    for name, saved in trial.compared:
        networks[name] = setup.saved_network(folder / saved)
    timing = trial.timing
    measured = measure_speed(
        networks,
        setup.test.example(timing.batch),
        batch_sizes=(timing.batch,),
        memory=False,
        repeats=timing.repeats,
        seconds=timing.seconds,
        device="cpu" if timing.where == "cpu" else setup.device,
    )
    cut.progress.advance(1)
    speeds = {name: Speed(speed.mean, speed.std) for name, (speed,) in measured.items()}
    return TrialResult(speed=SpeedFacts(speeds, setup.accuracy, setup.parameters))


TASKS: Mapping[str, Callable[[Cut, Trial, Path], TrialResult]] = {
    "train": train,
    "ideals": find_ideals,
    "dimension": estimate_dimension,
    "speed": time_networks,
}
"""What carries out a trial; networks and checkpoints go below the folder."""
