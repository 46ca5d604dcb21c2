"""The space of a search: cuts of a network, heads behind each, and the trial each of them means."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from vinets.core.device import Inputs, each
from vinets.core.files import slug
from vinets.core.options import words_of
from vinets.core.progress import progress_of
from vinets.core.settings import LatentOptions, TrainingOptions
from vinets.heads import HEADS, ProductsHead, ProductsOptions, ReLUUnits, VanishingHead
from vinets.latent.cut import CutPoint, cut_points
from vinets.latent.reader import LatentReader, channels_come_last
from vinets.models.networks import SIZES
from vinets.models.records import source_of, spec_of
from vinets.networks.network import CutNetwork
from vinets.runs.setup import Cut, Setup
from vinets.runs.trial import Trial
from vinets.training import Lessons, fine_tune

MAX_SHARE = 0.9  # share of parameters or operations, beyond which a cut saves nothing
MAX_HEAD = 500_000  # parameters of a large head
MAX_HEAD_SHARE = 0.2  # share of the uncut network's parameters, in a large head
SMALL_DATA = 10_000  # examples, below which batches are small
FEW_CLASSES = 20  # with no more, a teacher's answers say more at a higher temperature
HIGH_TEMPERATURE = 4.0
VARIABLES = 16  # variables of a VI-Net, whose polynomials have at most 152 monomials
MIN_GENERATORS, MAX_GENERATORS = 4, 64  # per class, of a VI-Net
TIMED_STEPS = 6  # steps of training that tell how long all of it will take
TIMED_EXAMPLES = 16  # examples that tell as much where each takes more than
SLOW_SECONDS = 0.02
INT8 = "onnx-int8"  # export format
REPEATED = "repeated"  # folder, in that of the search, of networks that are made again

# Options of a VI-Net in a search, whose backbone is tuned like that of the other heads.
VANISHING: dict[str, Any] = {"components": VARIABLES, "psi": 0.03, "max_degree": 2}
VANISHING |= {"monomials": None, "per_class": 512, "vanish": 1.0}


@dataclass(frozen=True)
class Candidate:
    """A head behind a cut."""

    cut: str
    head: str  # a kind of vinets.heads.HEADS
    parameters: int  # that the head may store, as far as its kind allows it
    factors: int = 2  # linear forms in a product, of a product head
    keep: int = 0  # generators per class, of a VI-Net

    @property
    def label(self) -> str:
        """What tables call the head."""
        degree = f", degree {self.factors}" if self.head == ProductsHead.kind else ""
        return HEADS[self.head].label + degree

    @property
    def name(self) -> str:
        """A name that no other candidate of a search has."""
        return f"{self.cut} {self.label}, {self.parameters:,}"

    @property
    def polynomial(self) -> bool:
        """Whether the head has polynomials, and is no plain one."""
        return self.head in (ProductsHead.kind, VanishingHead.kind)


@dataclass(frozen=True)
class CommandWords:
    """Words by which a command line names the network, the data and the folder of a search.

    A search from Python has none, so its commands have words in capitals in their place.
    """

    model: str = "MODEL"
    data: tuple[str, ...] = ("--data", "DATA")  # and all options of how they are read
    augment: tuple[str, ...] = ()  # options of commands that train
    device: tuple[str, ...] = ()
    out: str = "OUT"
    saved: str = "OUT"  # the network in that folder, as commands name it

    def evaluate(self) -> tuple[str, ...]:
        """Return the command that tests the uncut network."""
        return ("vinets", "evaluate", self.model, *self.data, *self.device)

    def quantize(self, uncut: bool, seed: int) -> tuple[str, ...]:
        """Return the command that writes the uncut or the chosen network in int8, and tests it."""
        name, network, data = "uncut", self.model, [*self.data]
        if not uncut:
            name, network = "chosen", self.saved
            while options := {"--weights", "--model-option"} & {*data}:  # a folder has its own
                place = data.index(options.pop())
                del data[place : place + 2]
        drawn = ("--seed", str(seed)) if seed else ()
        form = ("--format", INT8, "--most-lost", "100")
        out = f"{self.out}/{REPEATED}/{name}-int8.onnx"
        return ("vinets", "export", network, *data, *form, *drawn, *self.device, "--out", out)


class Space:
    """Candidates for an uncut network, and how each is trained, built and made again.

    For a plan, the setup has some of the ``examples`` to train on. Its networks see just enough of
    them to know their shapes, and ideals, which need all of them, are not fitted.
    """

    def __init__(self, setup: Setup, cuts: int, seed: int, examples: int | None = None) -> None:
        self.setup, self.planned = setup, examples is not None
        self.examples = len(setup.train) if examples is None else examples
        classes = len(setup.train.classes)
        example = each(setup.train.example(), lambda tensor: tensor.to(setup.device))
        points = cut_points(setup.model, example)
        self.cuts = choose_cuts(points, setup.parameters, cuts)
        if not self.cuts:
            raise ValueError(
                "no cut would save anything: before its last layers, no module of the network "
                "returns what all of its paths pass. vinets cuts --all lists every module, and "
                "vinets build takes any of them as --cut."
            )
        macs = max(point.macs for point in points)
        self.candidates = [
            candidate
            for point in self.cuts
            for candidate in candidates_at(
                point, setup.parameters, classes, (macs - point.macs) // positions(point, example)
            )
        ]
        recipe: dict[str, Any] = {} if self.examples >= SMALL_DATA else {"batch_size": 64}
        recipe |= {"temperature": HIGH_TEMPERATURE} if classes <= FEW_CLASSES else {}
        few = {"per_class": 1, "batch_size": 16} if self.planned else {}
        self._start = Trial(
            network=setup.name,
            latents=LatentOptions(**ProductsHead.latent_defaults(ProductsOptions()) | few),
            recipe=TrainingOptions(**{**ProductsHead.training_defaults, **recipe}),
            seed=seed,
        )

    def trial(
        self, candidate: Candidate, epochs: int, rate: float | None = None, save: str = ""
    ) -> Trial:
        """Return the trial of a candidate, which can be interrupted if its network is saved."""
        sizes: dict[str, dict[str, Any]] = {
            VanishingHead.kind: VANISHING | {"keep": candidate.keep},
            ProductsHead.kind: {"parameters": candidate.parameters, "factors": candidate.factors},
            ReLUUnits.kind: {"parameters": candidate.parameters},
        }
        options = sizes.get(candidate.head, {}) | {"cut": candidate.cut, "head": candidate.head}
        options |= {"epochs": epochs} | ({} if rate is None else {"learning_rate": rate})
        saved = {"save": save, "checkpoints": bool(save)}
        return self._start.change(detailed=True, **saved, **options)

    def networks(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, CutNetwork]]:
        """Yield the untrained networks of candidates, folded; those behind a cut share latents.

        For a plan there are none of ideals, see :meth:`estimate`.
        """
        groups: dict[Hashable, dict[Candidate, Trial]] = {}
        for one in candidates:
            if not (self.planned and HEADS[one.head].from_ideals):
                trial = self.trial(one, 1)
                groups.setdefault(trial.shares, {})[one] = trial
        for group in groups.values():
            cut = Cut(self.setup, next(iter(group.values())), progress_of(None))
            for one, trial in group.items():
                yield one, cut.network(trial)[0].folded()

    def estimate(self, candidate: Candidate) -> tuple[int, int]:
        """Return how many parameters and multiply-adds a network of ideals has, at most."""
        point = next(point for point in self.cuts if point.name == candidate.cut)
        own = candidate.keep * generator_sizes(len(self.setup.train.classes))
        own += VARIABLES * prod(point.shape)
        return point.parameters + own, point.macs + own

    def cost_per_example(self, candidate: Candidate) -> tuple[float, int]:
        """Train a candidate for a few steps; return how long an example takes, and bytes of a step.

        Bytes are 0 if a step had all of its examples: the system knows the memory of these. Where
        few examples take long, as large images do on a CPU, they tell enough.
        """
        trial = self.trial(candidate, 1)
        network, _ = Cut(self.setup, trial, progress_of(None)).network(trial)
        batch, most = trial.recipe.batch_size, len(self.setup.train)
        kept: dict[int, int] = {}  # bytes by address, because views share theirs
        lessons = Lessons(self.setup.model)  # in a search, too, it is asked once for all candidates

        def keep(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        def seconds(count: int) -> float:
            some, begin = self.setup.train.subset(torch.arange(count)), time.perf_counter()
            fine_tune(network, some, recipe=trial.recipe, teacher=lessons, progress=None)
            return (time.perf_counter() - begin) / count

        few, many = min(TIMED_EXAMPLES, most), min(TIMED_STEPS * batch, most)
        with saved_tensors_hooks(keep, lambda tensor: tensor):
            seconds(few)  # meanwhile libraries choose their kernels
        took = seconds(few)
        if took > SLOW_SECONDS and self.setup.device.type == "cpu":
            return took, sum(kept.values()) * batch // few
        seconds(many)  # and others for another size
        return seconds(many), 0

    def command(
        self,
        words: CommandWords,
        candidate: Candidate,
        epochs: int,
        rate: float,
        limit: int | None = None,
    ) -> tuple[str, ...]:
        """Return the command that trains a candidate again, on ``limit`` examples if not all.

        It tests the network on all test examples.
        """
        trial, head = self.trial(candidate, epochs, rate), candidate.head
        source = source_of(self.setup.model) if head == VanishingHead.kind else None
        # A command knows the sizes of known networks.
        sizes: dict[str, Any] = {} if source is None else SIZES.get(spec_of(source), {})
        point = next(one for one in self.cuts if one.name == candidate.cut)
        # The name of a module may be a number, which a command would read as an index.
        cut = str(point.index) if point.name.isdecimal() else point.name
        few = () if limit is None else ("--limit", str(limit))
        seed = ("--seed", str(trial.seed)) if trial.seed else ()
        usual, options = Trial.of(head, **sizes), list[str]()
        for group in ("options", "recipe", "latents"):
            options += words_of(getattr(trial, group), getattr(usual, group))
        out = f"{words.out}/{REPEATED}/{slug(candidate.name)}-{epochs}"
        return (
            *("vinets", "build", words.model, *words.data, *words.augment, *few, "--cut", cut),
            *("--head", head, *options, *seed, *words.device, "--out", out),
        )


def choose_cuts(points: Sequence[CutPoint], parameters: int, most: int = 10) -> list[CutPoint]:
    """Return at most ``most`` cuts that differ in what they cost, in the order of the network.

    All paths of the network pass them, and they lie at the ends of blocks. Of neighbours with the
    same operations the last is taken, which is behind the norm or the activation. Where there are
    too many, those are left that are spread most evenly over operations and parameters.
    """
    macs = max((point.macs for point in points), default=0)
    ends = [point for point in points if point.main and not point.inside and point.macs]
    by_macs = {
        point.macs: point
        for point in ends
        if point.parameters < MAX_SHARE * parameters or point.macs < MAX_SHARE * macs
    }
    rest = list(by_macs.values())
    if len(rest) <= most:
        return rest
    places = [point.macs / macs + point.parameters / parameters for point in rest]
    first, last, free = min(places), max(places), list(range(len(rest)))
    for i in range(most):
        wanted = first + (i + 0.5) / most * (last - first)  # a stem alone is of little use
        free.remove(min(free, key=lambda i: abs(places[i] - wanted)))
    return [point for i, point in enumerate(rest) if i not in free]


def head_sizes(parameters: int) -> tuple[int, int]:
    """Return the parameters of a large and of a small head, for a network with ``parameters``."""
    large = int(min(MAX_HEAD, MAX_HEAD_SHARE * parameters))
    return large, max(large // 4, 1)


def generator_sizes(classes: int) -> int:
    """Return the parameters of a generator of every class in a VI-Net."""
    # Each takes its coefficients, a bias, and a weight for every class.
    return classes * (VARIABLES + VARIABLES * (VARIABLES + 1) // 2 + 1 + classes)


def positions(point: CutPoint, example: Inputs) -> int:
    """Return at how many positions of its map a head uses a parameter, for such an example."""
    output = torch.empty(1, *point.shape, device="meta")
    reader = LatentReader(channels_last=channels_come_last(output, example))
    return reader.describe(output).positions


def candidates_at(point: CutPoint, parameters: int, classes: int, most: int) -> list[Candidate]:
    """Return the heads to try behind a cut of a network with ``parameters``.

    Units have at most ``most`` parameters. Each is used once at every position, so that few of them
    on a large map multiply as much as the cut saves, and make the network slower than before.
    """
    large, small = head_sizes(parameters)
    values, products = prod(point.shape), ProductsHead.kind
    wide = max(1, min(large, most))
    narrow = max(1, min(small, wide // 4))
    heads = [(products, wide, 3), (products, narrow, 3), (products, narrow, 2)]
    heads += [(ReLUUnits.kind, wide, 2), ("pooled", large, 2)]
    if values * classes <= 2 * large:
        heads.append(("linear", large, 2))
    candidates = [Candidate(point.name, *head) for head in heads]
    room = (2 * large - VARIABLES * values) // generator_sizes(classes)
    if (keep := min(MAX_GENERATORS, room)) >= MIN_GENERATORS:
        candidates.append(Candidate(point.name, VanishingHead.kind, 2 * large, keep=keep))
    return candidates
