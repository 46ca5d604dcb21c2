"""What a trial computes: one function for each task."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from vinets.algebra.shared import count_monomials
from vinets.core.device import call, evaluating
from vinets.core.plain import as_plain
from vinets.core.progress import Notes
from vinets.heads import HEADS, Head, LastLayer, PolynomialHead, VanishingOptions
from vinets.heads.facts import Vanishing, class_means, measure_vanishing
from vinets.heads.pieces import TrainedTail
from vinets.heads.vanishing import find_components, find_generators
from vinets.ideals.pruning import as_polynomials, prune
from vinets.measure import measure_speed
from vinets.measure.dimension import class_dimensions
from vinets.networks.network import CutNetwork
from vinets.runs.comparison import Speed
from vinets.runs.context import CutContext
from vinets.runs.setup import CHUNK, Setup, wrong_answers
from vinets.runs.trial import (
    DimensionFacts,
    IdealFacts,
    PolynomialFacts,
    SpeedFacts,
    TheoryFacts,
    TrainingFacts,
    Trial,
    TrialResult,
)
from vinets.theory import study
from vinets.training import History, Lessons, fine_tune
from vinets.training.checkpoint import Epoch
from vinets.training.classifier import solve_classifier
from vinets.training.feed import ViewFeed
from vinets.training.loop import fit
from vinets.training.tune import criterion_of

RATIOS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the polynomials that are pruned, to count the monomials that are left."""

CHECKPOINTS = "checkpoints"


def run_at_cut(context: CutContext, trial: Trial, folder: Path) -> TrialResult:
    """Carry out a trial; networks and checkpoints go below ``folder``."""
    found = TASKS[trial.task](context, trial, folder)
    if trial.task == "speed":  # of several networks, which need not share a cut
        return found
    return replace(found, removed=context.removed(trial.counting), shape=context.latents.shape)


# --- ideals and dimension ---------------------------------------------------------------------


def _find_ideals(context: CutContext, trial: Trial, folder: Path) -> TrialResult:
    """How many monomials and polynomials, how long, and what pruning leaves."""
    latents, options = context.latents, trial.options
    assert isinstance(options, VanishingOptions)  # a trial of ideals is one of a VI-Net
    variables = find_components(latents, options, trial.seed)
    context.progress.start("polynomials", 1)
    notes = Notes(context.progress)
    generators = find_generators(latents, variables, options, trial.seed, notes)
    context.progress.advance(1)
    ideals = generators.ideals
    left = {
        str(ratio): count_monomials(prune(ideals, generators.scores, 1.0 - ratio).polynomials)
        for ratio in RATIOS
    }
    with_oracle = all(hasattr(one, "steps_") for _, one in ideals)
    by_class = {str(k): count_monomials([as_polynomials(one.generators_)]) for k, one in ideals}
    facts = IdealFacts(
        points=int(latents.fit.sum()),
        features=latents.shape[0] * latents.shape[1],
        variables=variables.points.shape[1],
        explained_variance=variables.explained,
        polynomials=ideals.n_generators,
        monomials=generators.monomials,
        seconds=generators.seconds,
        monomials_left=left,
        by_class=by_class,
        steps=sum(one.report_.steps for _, one in ideals) if with_oracle else None,
        nonzeros=sum(one.report_.nonzeros for _, one in ideals) if with_oracle else None,
    )
    return TrialResult(ideals=facts)


def _estimate_dimension(context: CutContext, trial: Trial, folder: Path) -> TrialResult:
    """Intrinsic dimension of the latents of every class, before rescaling and projection."""
    latents = context.latents
    chosen = latents.fit.to(latents.store.labels.device)
    points, labels = latents.store.tensor().flatten(1)[chosen], latents.store.labels[chosen]
    # the estimate needs more points of every class than neighbours
    neighbours = min(20, max(2, len(points) // latents.n_classes - 2))
    found = class_dimensions(points, labels, neighbours=neighbours)
    per_class = {str(k): value for k, value in found.per_class.items()}
    facts = DimensionFacts(neighbours, per_class, found.mean, found.std)
    return TrialResult(dimension=facts)


# --- training ---------------------------------------------------------------------------------


def _train_head(context: CutContext, trial: Trial, folder: Path) -> TrialResult:
    """Train a head, fold it, test it, and save it where the trial says so."""
    network, report = context.network(trial)
    built = _vanishing(context, trial, network)
    # only polynomials of a VI-Net have classes to vanish on
    studied = trial.studied and built is not None
    polynomials = _polynomials(context, trial, network) if studied else None
    checkpoints = folder / CHECKPOINTS / trial.name if trial.checkpoints else None
    # Variables of local heads are as many as the latents: too many to keep for all trials.
    local = getattr(network.head, "local", False)
    split = network.head.split() if _projected(trial) and not local else None
    if not HEADS[trial.head].needs_training:
        folded = network.folded()
        loss, right = _fitted(folded, context)
        epoch = Epoch(0, loss, right, None, None, 0.0)
        history, wrong = (
            History((epoch,), 1, context.recipe(trial)),
            _tested(context, trial, folded),
        )
    elif split is not None:
        history, wrong = _train_behind(context, trial, network.head, *split, checkpoints)
        folded = network.folded()
    else:
        history = _train(context, trial, network, checkpoints)
        folded = network.folded()
        wrong = _tested(context, trial, folded)
    kept, parts = history.kept, folded.parts()
    setup, trained = context.setup, _vanishing(context, trial, folded)
    if trained is not None:
        notes = folded.record.notes | {"vanishing": as_plain(trained)}
        folded.record = replace(folded.record, notes=notes)
    accuracy = _tested_and_saved(context, trial, folded, wrong, folder)
    layer = getattr(network.head, "polynomials", None)
    facts = TrainingFacts(
        accuracy=accuracy,
        uncut=setup.accuracy,
        train_accuracy=kept.accuracy,
        loss=kept.loss,
        parts=parts,
        seconds=history.seconds,
        best_epoch=history.best,
        polynomials=None if layer is None else len(layer.bias),
        monomials=None if layer is None else len(layer.monomials.terms),
        capped=report.capped,
        vanishing_built=built,
        vanishing=trained,
        wrong=wrong if trial.detailed else None,
        uncut_wrong=setup.wrong if trial.detailed else None,
        tested=len(setup.test) if trial.detailed else None,
        history=history if trial.detailed else None,
        build=report if trial.detailed else None,
    )
    if polynomials is not None:
        after = _values_by_class(context, trial, folded)
        polynomials = replace(polynomials, trained=after)
    theory = _theory(setup, folded) if trial.studied else None
    return TrialResult(training=facts, theory=theory, polynomials=polynomials)


def _values_by_class(
    context: CutContext, trial: Trial, network: CutNetwork
) -> tuple[tuple[float, ...], ...]:
    """Mean absolute values of polynomials on test examples: a row for each, a column a class."""
    head = network.head
    assert isinstance(head, PolynomialHead)
    with evaluating(network):
        means, _, _ = class_means(head.polynomials, _test_variables(context, trial, network))
    return tuple(tuple(float(f"{x:.3g}") for x in row) for row in means.T.tolist())


def _polynomials(context: CutContext, trial: Trial, network: CutNetwork) -> PolynomialFacts:
    """The polynomials of a VI-Net before its training, and the shortest that is no line."""
    head = network.head
    assert isinstance(head, PolynomialHead) and head.polynomials.owners is not None
    values, owners = _values_by_class(context, trial, network), head.polynomials.owners.tolist()
    every = [p for k in sorted({*owners}) for p in head.polynomials.polynomials(k)]
    # a line is the shortest polynomial of all, and shows less than one that bends
    lengths = [(p.degree < 2, sum(c != 0 for c in p.coefficients)) for p in every]
    shortest = min(range(len(every)), key=lengths.__getitem__)
    with torch.no_grad():
        points, labels = zip(*_test_variables(context, trial, network), strict=True)
    sizes, label = every[shortest](torch.cat(points).double()).abs(), torch.cat(labels)
    means = tuple(float(sizes[label == k].mean()) for k in range(len(values[0])))
    text = every[shortest].text()
    return PolynomialFacts(tuple(owners), values, values, shortest, text, means)


def _theory(setup: Setup, network: CutNetwork) -> TheoryFacts:
    """Spectral complexity of a network and of the uncut one, and the theorem's bounds."""
    example = setup.train.example()
    assert isinstance(example, Tensor)  # of other inputs the theory says nothing
    found = study(
        setup.model,
        network.record.cut,
        example.to(setup.device),
        network=network,
        batches=lambda: setup.train.batches(CHUNK, device=setup.device),
    )
    assert found.network is not None  # it was given
    bounds = found.network.head.bounds
    return TheoryFacts(
        found.uncut.log10_R,
        found.network.whole.log10_R,
        found.network.guaranteed.log10_R,
        () if bounds is None else tuple(map(as_plain, bounds.bounds)),
        None if found.corollary is None else found.corollary.ratio(),
    )


@torch.no_grad()
def _fitted(network: CutNetwork, context: CutContext) -> tuple[float, float]:
    """Cross-entropy and accuracy of a head on the latents that it was made from."""
    parts = [
        (network.head(z.to(context.setup.device).float()), y)
        for z, y in context.latents.store.chunks(1024)
    ]
    logits = torch.cat([logits for logits, _ in parts])
    labels = torch.cat([y.to(logits.device) for _, y in parts])
    right = (logits.argmax(1) == labels).double().mean()
    return float(nn.functional.cross_entropy(logits, labels)), float(right)


def _tested_and_saved(
    context: CutContext, trial: Trial, network: CutNetwork, wrong: tuple[int, ...], folder: Path
) -> float:
    """The test accuracy; the network is saved with it where the trial says so."""
    setup = context.setup
    accuracy = 1 - len(wrong) / len(setup.test)
    if trial.save:
        notes = network.record.notes | {"accuracy": accuracy}
        network.record = replace(network.record, notes=notes, data=setup.facts)
        _save(network, folder / trial.save)
    return accuracy


def _projected(trial: Trial) -> bool:
    """Whether cached latents stand for inputs, which they do for a backbone that stays as it is."""
    return trial.recipe.projected and trial.recipe.layers == 0


def _train(context: CutContext, trial: Trial, network: CutNetwork, folder: Path | None) -> History:
    recipe = context.recipe(trial)
    cached = recipe.views is not None
    teacher: nn.Module | Lessons | None = None
    if recipe.distill or network.head.matches_features:
        teacher = context.lessons if recipe.layers != 0 else context.setup.model
    return fine_tune(
        network,
        context.views(trial) if cached else context.setup.train,
        recipe=recipe,
        teacher=teacher,
        directory=folder,
        progress=context.progress,
    )


def _train_behind(
    context: CutContext,
    trial: Trial,
    head: Head,
    front: Callable[[Tensor], Tensor],
    module: nn.Module,
    folder: Path | None,
) -> tuple[History, tuple[int, ...]]:
    """Train and test what stands behind the frozen part of a head, on cached variables.

    ``fine_tune`` splits heads in the same way; here, trials that project alike share variables.
    """
    views, test = context.projected(trial, front)
    recipe = context.recipe(trial)
    if recipe.trained == "classifier" and isinstance(module, TrainedTail):
        features = module.features if module.features is not None else nn.Identity()
        last = LastLayer(features.eval(), module.norm, module.linear)
        history = solve_classifier(last, views.parts(), recipe)
        return history, _wrong(module, test, context.setup.test.labels)
    history = fit(
        module,
        ViewFeed(views, seed=recipe.seed),
        recipe,
        criterion=criterion_of(head, recipe),
        directory=folder,
        device=context.setup.device,
        stage=f"training {trial.head}",
        progress=context.progress,
    )
    return history, _wrong(module, test, context.setup.test.labels)


def _wrong(module: nn.Module, inputs: Tensor, labels: Tensor) -> tuple[int, ...]:
    """Positions of the cached inputs that ``module`` gets wrong."""
    with evaluating(module):
        parts = inputs.split(CHUNK // 4)  # every monomial takes room for every example
        answers = torch.cat([module(part.float()).argmax(1) for part in parts])
    return tuple((answers != labels.to(answers.device)).nonzero()[:, 0].tolist())


def _tested(context: CutContext, trial: Trial, network: CutNetwork) -> tuple[int, ...]:
    if not _projected(trial):
        setup = context.setup
        return wrong_answers(network, setup.test, setup.device, progress=context.progress)
    return _wrong(network.head, context.test_latents, context.setup.test.labels)


def _vanishing(context: CutContext, trial: Trial, network: CutNetwork) -> Vanishing | None:
    """How the polynomials of a VI-Net vanish on the test images; None of other networks."""
    head = network.head
    if not (isinstance(head, PolynomialHead) and head.from_ideals):
        return None
    if head.polynomials.counts is None:  # a head of an earlier release does not know its classes
        return None
    with evaluating(network):
        seen = _test_variables(context, trial, network)
        return measure_vanishing(head.polynomials, seen, trial.options.psi)  # type: ignore[union-attr]


def _test_variables(
    context: CutContext, trial: Trial, network: CutNetwork
) -> Iterator[tuple[Tensor, Tensor]]:
    """Points in the variables of a head for all test examples, with their labels."""
    head, setup = network.head, context.setup
    assert isinstance(head, PolynomialHead)
    if trial.recipe.layers == 0:
        labels = setup.test.labels.split(CHUNK // 4)
        for z, y in zip(context.test_latents.split(CHUNK // 4), labels, strict=True):
            yield head.variables(z.float()), y
    else:
        for x, y in setup.test.batches(CHUNK // 4, device=setup.device):
            yield head.variables(call(network.latents, x)), y


def _save(network: CutNetwork, folder: Path) -> None:
    """Write a network; an old one is replaced when the new one is complete."""
    if folder.is_dir() and any(folder.iterdir()):
        network.save_pretrained(folder)  # beside other files: the store's own folder
        return
    aside = folder.with_name(f".{folder.name}")
    shutil.rmtree(aside, ignore_errors=True)
    network.save_pretrained(aside)
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)


# --- speed ------------------------------------------------------------------------------------


def _measure_speed(context: CutContext, trial: Trial, folder: Path) -> TrialResult:
    """Images per second of the uncut network and of saved ones, which take turns."""
    setup = context.setup
    context.progress.start("timing", 1)
    networks: dict[str, nn.Module] = {trial.network or "uncut": setup.model}
    for name, saved in trial.compared:
        whole = copy.deepcopy(setup.model)  # its class may be the user's own
        network = CutNetwork.from_pretrained(folder / saved, backbone=whole.cpu())
        networks[name] = network.to(setup.device).folded()
    timing = trial.timing
    measured = measure_speed(
        networks,
        setup.test.example(timing.batch),
        batch_sizes=(timing.batch,),
        repeats=timing.repeats,
        seconds=timing.seconds,
        device="cpu" if timing.where == "cpu" else setup.device,
    )
    context.progress.advance(1)
    speeds = {name: Speed(speed.mean, speed.std) for name, (speed,) in measured.items()}
    return TrialResult(speed=SpeedFacts(speeds, setup.accuracy, setup.parameters))


TASKS: Mapping[str, Callable[[CutContext, Trial, Path], TrialResult]] = {
    "train": _train_head,
    "ideals": _find_ideals,
    "dimension": _estimate_dimension,
    "speed": _measure_speed,
}
