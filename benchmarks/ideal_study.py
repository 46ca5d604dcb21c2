"""Where might the ideal matter? Three more places, with equal budgets and random controls.

``refit``: a network is tuned, generators are found on its *tuned* latents, and products start from
them for a second tuning; against going on with the products it has, and against new random ones.

``beside``: half of the head is made of generators, factored or as polynomials, half of random
products; against products alone, and against random polynomials in that half.

``monomials``: local and global polynomials, everything tuned, in the monomials of the generators
with the largest contrast; against random ones, as many.

    python -m benchmarks.tuning train digits_cnn --data digits --out weights
    python -m benchmarks.ideal_study run digits --weights weights \\
        --out benchmarks/results/tuning/ideal
    python -m benchmarks.ideal_study run cifar --weights weights --cifar10 data --cifar100 data \\
        --out benchmarks/results/tuning/ideal --jobs 6
    python -m benchmarks.ideal_study differences benchmarks/results/tuning/ideal

Results are kept after every training, and the same call goes on where it was stopped. For a look,
``--train 20 --test 20 --epochs 1 --seeds 1`` takes a part of the data.
"""

from __future__ import annotations

import argparse
import copy
import math
import multiprocessing
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import tuning
from benchmarks.ideal_heads import draw, hold, mixed
from vinets.core.files import read_json, slug, write_json
from vinets.core.plain import as_plain
from vinets.core.progress import progress_of
from vinets.heads import HEADS as KINDS
from vinets.heads import ProductsHead, ProductsOptions
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.products import factored_generators
from vinets.latent.collect import Latents, collect
from vinets.measure import machine
from vinets.networks.build import rival_options
from vinets.networks.network import CutNetwork, put_behind
from vinets.runs.setup import Cut, Setup, SetupFiles, wrong_answers
from vinets.runs.trial import Trial
from vinets.training import History, fine_tune

if TYPE_CHECKING:
    from vinets.report import Table


@dataclass(frozen=True)
class Place:
    """A network and a cut, and what of the studies depends on their size."""

    trial: Trial  # how products are tuned there
    seeds: int
    keep: int  # polynomials of a class in a local head
    components: int  # variables of polynomials beside products


def _cifar(network: str, cut: str, keep: int) -> Place:
    budget = tuning.EARLY[network, cut]
    trial = tuning.START.change(network=network, cut=cut, parameters=budget)
    return Place(trial, 3, keep, 16)


PLACES = {
    "digits": tuple(Place(trial, tuning.SEEDS, 5, 8) for trial in tuning.DIGITS.values()),
    "cifar": (
        _cifar("resnet18", "layer1.1.bn2", 10),
        _cifar("resnet34", "layer2.1.bn2", 2),
    ),
}

GOING_ON, NEW, REFITTED = "the same products", "new random products", "refitted generators"
SECOND: dict[str, tuple[float, str]] = {  # epochs of a second tuning as a share of the first's
    "a quarter of the epochs": (0.25, "backbone"),
    "a quarter of the epochs, backbone frozen": (0.25, "coefficients"),
    "as many epochs again": (1.0, "backbone"),
}
ALONE, HALF, FIXED = "products alone", "half generators", "half generators, held fixed"
HALF_IDEAL, HALF_RANDOM = "half polynomials of the ideal", "half random polynomials"
IDEAL, COEFFICIENTS = "generators", "their monomials, random coefficients"
DEGREES, ANY = "random monomials of these degrees", "any random monomials"
RELU, PRODUCTS = "their monomials, ReLU", "products"
PLACEMENTS: dict[str, dict[str, Any]] = {
    "local": {"head": "local", "components": 16, "monomials": 64},
    "global": {
        **{"head": "vanishing", "order": "tanh-pca", "normalization": "unit"},
        **{"components": 32, "monomials": 128, "keep": 16},
    },
}
STUDIES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # rows, and what is compared
    "refit": (tuple(SECOND), (GOING_ON, NEW, REFITTED)),
    "beside": (
        ("all examples", "20 examples a class"),
        (ALONE, HALF, FIXED, HALF_IDEAL, HALF_RANDOM),
    ),
    "monomials": (tuple(PLACEMENTS), (IDEAL, COEFFICIENTS, DEGREES, ANY, RELU, PRODUCTS)),
}
ROWS = {"refit": "second tuning", "beside": "training", "monomials": "polynomials"}
CONTRASTS: dict[str, tuple[tuple[str, str], ...]] = {  # with the ideal, and without it
    "refit": ((REFITTED, GOING_ON), (REFITTED, NEW)),
    "beside": ((HALF, ALONE), (FIXED, ALONE), (HALF_IDEAL, ALONE), (HALF_IDEAL, HALF_RANDOM)),
    "monomials": (
        (IDEAL, COEFFICIENTS),
        (COEFFICIENTS, DEGREES),
        (IDEAL, DEGREES),
        (IDEAL, ANY),
        (IDEAL, RELU),
        (IDEAL, PRODUCTS),
    ),
}
HEADS = {DEGREES: "{}same-degrees", ANY: "{}random", RELU: "local-relu"}


def ways(study: str, row: str) -> tuple[str, ...]:
    """What is compared in a row of a study."""
    every = STUDIES[study][1]
    # ReLU and products stand at every position
    return tuple(way for way in every if row != "global" or way not in (RELU, PRODUCTS))


# --- trainings --------------------------------------------------------------------------------


@dataclass
class Bench:
    """What the trainings of one study at one place with one seed share."""

    setup: Setup
    place: Place
    trial: Trial
    work: Path  # for checkpoints and the network that is tuned twice
    lessons: Path | None = None  # where processes share what teachers say
    contexts: dict[Trial, Cut] = field(default_factory=dict)

    def context(self, trial: Trial) -> Cut:
        """Latents and teacher; trials on the same data share them."""
        key = Trial(sampling=trial.sampling)
        if key not in self.contexts:
            setup = self.setup.sampled(trial.sampling)
            self.contexts[key] = Cut(setup, trial, progress_of(None), self.lessons)
        return self.contexts[key]

    def train(self, network: CutNetwork, trial: Trial, name: str) -> History:
        """Tune a network; an interrupted call goes on from its last epoch."""
        context = self.context(trial)
        folder = self.work / slug(name)
        history = fine_tune(
            network,
            context.setup.train,
            recipe=context.recipe(trial),
            teacher=context.lessons if trial.recipe.layers != 0 else context.setup.model,
            directory=folder,
            progress=None,
        )
        shutil.rmtree(folder, ignore_errors=True)
        return history

    # --- refit ---

    @cached_property
    def tuned(self) -> CutNetwork:
        """Backbone and products after the first tuning; kept, for a GPU never repeats itself."""
        folder = self.work / "tuned"
        if not (folder / "config.json").is_file():
            network, _ = self.context(self.trial).network(self.trial)
            self.train(network, self.trial, "first")
            network.save_pretrained(folder)
        whole = copy.deepcopy(self.setup.model).cpu()
        return CutNetwork.from_pretrained(folder, backbone=whole).to(self.setup.device)

    @cached_property
    def refitted(self) -> Latents:
        """Latents behind the tuned backbone."""
        before = self.context(self.trial).latents
        found = collect(
            self.tuned,
            self.context(self.trial).setup.train,
            f"backbone.{before.record.cut}",
            options=self.trial.latents,
            device=self.setup.device,
            seed=self.trial.seed,
            progress=None,
        )
        return replace(found, backbone=self.tuned.backbone, record=before.record)

    def refit(self, row: str, way: str) -> tuple[CutNetwork, Trial]:
        share, trained = SECOND[row]
        epochs = max(1, round(share * self.trial.recipe.epochs))
        # another seed, so that neither draws nor batches are those of the first tuning
        trial = self.trial.change(epochs=epochs, trained=trained, seed=self.trial.seed + 100)
        if way == GOING_ON:
            return copy.deepcopy(self.tuned), trial
        start = "ideal" if way == REFITTED else "random"
        return self.products(self.refitted, trial.change(start=start)), trial

    # --- beside ---

    def products(self, latents: Latents, trial: Trial) -> CutNetwork:
        """Untrained products."""
        head = KINDS[trial.head].build(latents, trial.options, trial.seed)
        return put_behind(latents, head, {})[0]

    def beside(self, row: str, way: str) -> tuple[CutNetwork, Trial]:
        trial = tuning.start(self.trial, row, "random", self.trial.seed)
        few, given = trial.sampling.train, self.trial.sampling
        if few is not None and given.train is not None:  # a look at a part of the data stays one
            few = min(few, given.train)
        trial = trial.change(train=few, test=given.test)
        latents = self.context(trial).latents
        network = self.products(latents, trial)
        if way in (HALF_IDEAL, HALF_RANDOM):
            both = mixed(latents, trial, self.place.components, drawn=way == HALF_RANDOM)
            made = CutNetwork(latents.backbone, latents.reader, both, latents.record)
            return made.to(self.setup.device), trial
        if way != ALONE:
            head, options = network.head, trial.options
            assert isinstance(head, ProductsHead) and isinstance(options, ProductsOptions)
            half, _ = factored_generators(latents, options, trial.seed, head.count // 2)
            head.start_from(*half)
            if way == FIXED:
                hold(head, half[0].shape[1])
        return network, trial

    # --- monomials ---

    def monomials(self, row: str, way: str) -> tuple[CutNetwork, Trial]:
        trial = self.trial.change(**({"keep": self.place.keep} | PLACEMENTS[row]))
        context = self.context(trial)
        if way == PRODUCTS:
            parts = context.network(trial)[0].folded().head.parts()
            trial = self.trial.change(parameters=sum(parts.values()))
            return self.products(context.latents, trial), trial
        if way in HEADS:
            kind = HEADS[way].format("local-" if row == "local" else "")
            options = rival_options(kind, trial.head, trial.options)
            trial = replace(trial, head=kind, options=options)
        network, _ = context.network(trial)
        network = copy.deepcopy(network)
        if way == COEFFICIENTS:
            layer = network.head.polynomials
            assert isinstance(layer, PolynomialLayer)
            draw(layer, trial.seed)
        return network, trial

    def carry_out(self, study: str, row: str, way: str) -> dict[str, Any]:
        """Make a network, tune it, test it."""
        make: Callable[[str, str], tuple[CutNetwork, Trial]] = getattr(self, study)
        network, trial = make(row, way)
        history = self.train(network, trial, f"{row} {way}")
        folded, setup = network.folded(), self.context(trial).setup
        wrong = wrong_answers(folded, setup.test, setup.device)
        return {
            "row": row,
            "way": way,
            "accuracy": 1 - len(wrong) / len(setup.test),
            "loss": history.kept.loss,
            "epochs": trial.recipe.epochs,
            "parts": folded.parts(),
            "seconds": history.seconds,
        }


# --- groups of trainings ----------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """One study at one place with one seed: the trainings that share a file."""

    study: str
    place: Place
    trial: Trial

    @property
    def name(self) -> str:
        """Of its file."""
        facts = (self.study, self.trial.network, self.trial.cut, self.trial.seed)
        return slug("-".join(map(str, facts)))

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Rows and ways."""
        return [(row, way) for row in STUDIES[self.study][0] for way in ways(self.study, row)]


def groups(
    where: str, studies: Sequence[str], seeds: int | None = None, **changes: Any
) -> list[Group]:
    """All of them, seed by seed."""
    made = []
    for seed in range(max(place.seeds for place in PLACES[where])):
        for study in studies:
            for place in PLACES[where]:
                if seed < (place.seeds if seeds is None else seeds):
                    trial = tuning.start(place.trial, "all examples", "random", seed)
                    made.append(Group(study, place, trial.change(**changes)))
    return made


def run_group(
    group: Group, files: SetupFiles, out: Path, work: Path, device: str, lessons: Path | None
) -> None:
    """Carry out what is missing of a group; every result is kept at once."""
    path = out / f"{group.name}.json"
    settings = as_plain(group.trial.changes)
    record: dict[str, Any] = {"results": []}
    if path.is_file():
        record = read_json(path)
        if record["settings"] != settings:
            raise ValueError(f"{path} holds results of other settings. Choose another folder.")
    done = {(one["row"], one["way"]) for one in record["results"]}
    missing = [arm for arm in group.arms if arm not in done]
    if not missing:
        return
    setup = files.open(group.trial.network, torch.device(device))
    place = work / group.name
    bench = Bench(setup, group.place, group.trial, place, lessons)
    where = next(name for name, places in PLACES.items() if group.place in places)
    facts = {
        "study": group.study,
        "network": group.trial.network,
        "cut": group.trial.cut,
        "seed": group.trial.seed,
        "uncut": setup.sampled(group.trial.sampling).accuracy,
        "identity": as_plain(setup.identity),
        "settings": settings,
        "command": f"python -m benchmarks.ideal_study run {where}",
        "machine": machine(device),
    }
    for row, way in missing:
        found = bench.carry_out(group.study, row, way)
        record = facts | {"results": [*record["results"], found]}
        write_json(path, record)
        right = f"{100 * found['accuracy']:.2f} % in {found['seconds']:.0f} s"
        print(f"{group.name}: {row}, {way}: {right}", flush=True)
    shutil.rmtree(place, ignore_errors=True)


def run(
    wanted: Sequence[Group],
    files: Mapping[str, SetupFiles],
    out: Path,
    work: Path,
    device: str,
    jobs: int,
) -> None:
    """All groups, in several processes if there are to be."""
    out.mkdir(parents=True, exist_ok=True)
    if jobs == 1:
        for group in wanted:
            run_group(group, files[group.trial.network], out, work, device, None)
        return
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with (
        TemporaryDirectory(prefix="vinets-") as lessons,
        ProcessPoolExecutor(jobs, spawn, _quiet) as pool,
    ):
        waiting = [
            pool.submit(
                run_group,
                group,
                files[group.trial.network],
                out,
                work,
                device,
                Path(lessons) / group.trial.network,
            )
            for group in wanted
        ]
        for future in waiting:
            future.result()


def _quiet() -> None:
    torch.set_num_threads(1)  # processes fill the cores already


# --- tables -----------------------------------------------------------------------------------


Accuracies = dict[tuple[str, ...], list[float]]


def read(folder: Path, study: str) -> tuple[Accuracies, list[dict[str, Any]]]:
    """Accuracies in percent by network, cut, row and way; and how those of each set were made."""
    found: Accuracies = {}
    made: list[dict[str, Any]] = []
    for places in PLACES.values():
        wanted = [
            Group(study, place, place.trial.change(seed=seed))
            for place in places
            for seed in range(place.seeds)
        ]
        there = [group for group in wanted if (folder / f"{group.name}.json").is_file()]
        records = [read_json(folder / f"{group.name}.json") for group in there]
        # all that is compared has the same seeds
        records = [one for one in records if len(one["results"]) == len(there[0].arms)]
        for record in records:
            for one in record["results"]:
                key = record["network"], record["cut"], one["row"], one["way"]
                found.setdefault(key, []).append(100 * one["accuracy"])
        if records:
            seeds = len({record["seed"] for record in records})
            made.append(records[0] | {"seeds": seeds})
    return found, made


def study_table(folder: Path, study: str) -> tuple[Table, list[dict[str, Any]]]:
    """Accuracies of a study, mean and deviation over seeds; and how they were made."""
    from vinets.report import Column, Row, Table  # trainings run where there is no rich

    found, made = read(folder, study)
    every = STUDIES[study][1]
    columns = [Column("network"), Column("cut"), Column("row", ROWS[study])]
    columns += [Column(way, f"{way}, %", ".2f", f"{way} std") for way in every]
    rows = []
    for network, cut, row in dict.fromkeys(key[:3] for key in found):
        cells: dict[str, Any] = {"network": network, "cut": cut, "row": row}
        for way in every:
            values = found.get((network, cut, row, way), [])
            if len(values) > 1:
                cells |= {way: fmean(values), f"{way} std": stdev(values)}
        rows.append(Row(cells))
    return Table(study, study, tuple(columns), tuple(rows)), made


def differences(folder: Path, study: str) -> list[dict[str, Any]]:
    """What the ideal is ahead by, and whether by more than two joint deviations over seeds."""
    found, _ = read(folder, study)
    made = []
    for network, cut, row in dict.fromkeys(key[:3] for key in found):
        for ideal, other in CONTRASTS[study]:
            a, b = (found.get((network, cut, row, way), []) for way in (ideal, other))
            if min(len(a), len(b)) > 1:
                ahead, joint = fmean(a) - fmean(b), math.hypot(stdev(a), stdev(b))
                beyond = bool(ahead) and (not joint or abs(ahead) > 2 * joint)
                made.append(
                    {
                        "place": f"{network} {cut}, {row}",
                        "ideal": ideal,
                        "against": other,
                        "ahead_points": ahead,
                        "joint_points": joint,
                        "beyond": beyond,
                    }
                )
    return made


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    ran = tasks.add_parser("run", help="carry out what is missing")
    ran.add_argument("where", choices=PLACES)
    ran.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    ran.add_argument("--weights", default="weights")
    ran.add_argument("--cifar10", default="data")
    ran.add_argument("--cifar100", default="data")
    ran.add_argument("--out", type=Path, required=True)
    ran.add_argument("--work", type=Path, default=Path("build/ideal_study"), help="checkpoints")
    ran.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ran.add_argument("--jobs", type=int, default=1, help="processes side by side")
    ran.add_argument("--seeds", type=int)
    for name, text in (
        ("--epochs", "of a tuning"),
        ("--train", "training examples of a class"),
        ("--test", "test examples of a class"),
    ):
        ran.add_argument(name, type=int, help=text)
    ran.add_argument("--precision", help="float32 where there is no GPU")
    shown = tasks.add_parser(
        "differences", help="what the ideal is ahead by, joint deviation, * beyond two"
    )
    shown.add_argument("folder", type=Path)
    given = parser.parse_args(words)
    if given.task == "differences":
        for study in STUDIES:
            for one in differences(given.folder, study):
                place = f"{study}, {one['place']}: {one['ideal']} against {one['against']}"
                mark = " *" if one["beyond"] else ""
                print(f"{place}: {one['ahead_points']:+.2f} ({one['joint_points']:.2f}){mark}")
        return 0
    changes = {
        name: getattr(given, name)
        for name in ("epochs", "train", "test", "precision")
        if getattr(given, name) is not None
    }
    files = tuning.files(given.weights, {"cifar10": given.cifar10, "cifar100": given.cifar100})
    wanted = groups(given.where, given.studies, given.seeds, **changes)
    run(wanted, files, given.out, given.work, given.device, given.jobs)
    print(f"{sum(len(group.arms) for group in wanted)} trainings in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
