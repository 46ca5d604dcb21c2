"""An uncut network with its data on a device, what identifies both, and what a cut of it gives."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.device import uncompiled
from vinets.core.plain import changes
from vinets.core.progress import Notes, Progress, progress_of
from vinets.core.settings import SampleOptions, TrainingOptions
from vinets.core.tensors import digest, fingerprint
from vinets.data import DataSplit, ImageSource, Source, load_data
from vinets.data.conversion import draw_from
from vinets.data.digest import examples_digest, identify
from vinets.data.images import at_once
from vinets.data.source import choose_per_class, require_split
from vinets.heads import HEADS, BuildFacts
from vinets.latent.collect import Latents, collect
from vinets.latent.cut import all_convolutions, all_layers, paper_convolutions, share_removed
from vinets.measure.accuracy import evaluate
from vinets.measure.doubt import MisreadWarning, doubt_accuracy
from vinets.models.origin import code_of, input_fields, trained_on
from vinets.networks.network import CutNetwork, put_behind, refuse_seen
from vinets.networks.open import channel_count, open_network
from vinets.runs.trial import Trial
from vinets.training import LatentViews, Lessons, cache_latents

CHUNK = 2_000  # examples at once where nothing is trained
LOOKED_AT = 1_000  # examples of each part that the uncut network is tested on before any work
MAX_VIEW_BYTES = 64 << 30  # bytes of cached latents
COUNTED = {"all": all_convolutions, "paper": paper_convolutions, "layers": all_layers}


@dataclass(frozen=True)
class Identity:
    """Digests of the network and the data that results belong to."""

    weights: str  # digest of every number of the uncut network
    data: str  # digest of every example and label, training and test part
    preprocessing: str = ""  # how images are read, if that is not the data's own way
    form: str = ""  # digest of names, dtypes and shapes; stores of earlier releases have none
    code: str = ""  # digest of the file of an own network; earlier releases wrote none
    options: str = ""  # digest of the options of its constructor, where these are known

    @classmethod
    def of(cls, model: nn.Module, data: DataSplit) -> Identity:
        """Return what identifies the results of a network on this data."""
        state = [(k, str(t.dtype), list(t.shape)) for k, t in model.state_dict().items()]
        fields = [input_fields(part.example()) for part in (data.train, data.test) if len(part)]
        sizes = [len(data.train), len(data.test)]
        source = getattr(model, "vinets_source", None)
        return cls(
            fingerprint(model.state_dict().values()),
            identify(data),
            data.reading,
            # The fingerprint leaves out names and shapes.
            digest((), [state, fields, sizes, list(data.train.classes)]),
            code_of(model),
            digest((), source["options"]) if isinstance(source, dict) else "",
        )

    def differences(self, now: Identity) -> list[str]:
        """List what differs, in words; what an earlier release did not write does not count."""
        names = ["weights", "data", "preprocessing", *(["code"] if self.code else [])]
        names += ["options"] if self.options and now.options else []
        differ = [name for name in names if getattr(self, name) != getattr(now, name)]
        # Other weights and data have other shapes as a rule, which would say nothing new.
        return differ or (["shapes"] if self.form and self.form != now.form else [])


class Setup:
    """An uncut network and its data on a device; ``name`` is that by which trials name it.

    The network is moved to ``device`` and set to eval mode. Images lie on the device, too, where
    they are augmented.
    """

    def __init__(self, name: str, model: nn.Module, data: DataSplit, device: torch.device) -> None:
        require_split("Setup", data)
        self.name, self.data, self.device = name, data, device
        self.model = uncompiled(model).to(device).eval()
        self.train, self.test = (
            part.to(device) if isinstance(part, ImageSource) else part
            for part in (data.train, data.test)
        )
        self._parts: dict[SampleOptions, Setup] = {}
        self._whole: Setup | None = None  # the setup with all data, if this has a part

    def __reduce__(self) -> tuple[Any, ...]:  # what another process needs to make it again
        return Setup, (self.name, self.model, self.data, self.device)

    def open(self, name: str, device: torch.device) -> Setup:
        """Return itself, as :meth:`SetupFiles.open` reads one from files."""
        return self

    @cached_property
    def identity(self) -> Identity:
        """Digests of the network and its data, kept with results.

        There are none, and this raises, if the network was trained on what is the test part here.
        """
        refuse_seen(self.name, self.model, self.data)
        return Identity.of(self.model, self.data)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What networks that are trained on all its data are to know of it, as plain values."""
        if self._whole is not None:
            return self._whole.facts
        data, known = self.data, trained_on(self.model) or {}
        if known.get("name") == data.name and known.get("examples"):
            return known  # the uncut network knows more of data that are used here in part
        return {
            "name": data.name,
            "train": len(data.train),
            "test": len(data.test),
            "content": self.identity.data,
            "examples": examples_digest(data.train, data.test),  # in any order
            "training": examples_digest(data.train),
            **({"skipped": data.skipped} if data.skipped else {}),
        }

    @cached_property
    def wrong(self) -> tuple[int, ...]:
        """Positions of the test examples that the uncut network gets wrong."""
        return wrong_answers(self.model, self.test, self.device)

    @property
    def accuracy(self) -> float:
        """Accuracy of the uncut network on the test data."""
        return 1 - len(self.wrong) / len(self.test)

    @cached_property
    def lessons(self) -> Lessons:
        """The uncut network as a teacher that is asked once for all that learn from it here."""
        return Lessons(self.model)

    def look_at_accuracy(
        self, stated: float | None = None, say: Callable[[str], Any] = str, *, remedy: str = ""
    ) -> None:
        """Say how accurate the uncut network is on some examples, and warn if that is doubtful.

        With a ``remedy``, raise where another order of classes or other pixels explain it.
        """
        if missing := len(self.train.classes) - len(self.train.labels.unique()):
            raise ValueError(
                f"{missing} of the {len(self.train.classes)} classes have no examples to train on. "
                "Pass data that have all classes of the network."
            )
        some = (draw_from(part, LOOKED_AT, 0) for part in (self.test, self.train))
        # As if both were training examples, because those that it has seen are refused elsewhere.
        test, train = (evaluate(self.model, x, part="train", device=self.device) for x in some)
        name, known = "The uncut network", (stated, self.device, train.confusion)
        shares = [f"{100 * one.accuracy:.1f} % of {one.examples:,}" for one in (test, train)]
        say(f"{name} is right on {shares[0]} test examples and {shares[1]} training examples.")
        doubt = doubt_accuracy(name, self.model, self.test, test.confusion, *known)
        if remedy and isinstance(doubt, MisreadWarning):
            raise ValueError(f"{str(doubt).removesuffix('.')}; or pass {remedy} to go on.")
        if doubt is not None:
            warnings.warn(doubt, stacklevel=3)

    @property
    def parameters(self) -> int:
        """Count of the parameters of the uncut network."""
        return sum(p.numel() for p in self.model.parameters())

    def saved_network(self, folder: Path) -> CutNetwork:
        """Return a network that a trial saved, folded; its class may be the user's own."""
        whole = copy.deepcopy(self.model).cpu()  # where a saved network is made
        return CutNetwork.from_pretrained(folder, backbone=whole).to(self.device).folded()

    def sampled(self, sampling: SampleOptions) -> Setup:
        """Return the same network with a part of the data."""
        if sampling == SampleOptions():
            return self
        if sampling not in self._parts:
            # Trials of every seed have the same examples, so that they compare.
            parts: dict[str, Any] = {}
            for name, most in vars(sampling).items():
                whole = getattr(self.data, name)
                if most is not None:
                    parts[name] = whole.subset(choose_per_class(whole.labels, most, seed=0))
            part = Setup(self.name, self.model, replace(self.data, **parts), self.device)
            part._whole = self  # the uncut network may have seen all of it
            self._parts[sampling] = part
        return self._parts[sampling]


@dataclass(frozen=True)
class SetupFiles:
    """Where an uncut network and its data lie: enough to open them in another process."""

    model: str  # as for vinets.models.create_model
    weights: str  # a file that load_weights reads
    data: str  # as for vinets.data.load_data
    classes: int | None = None  # None asks the data
    split: int = 0  # seed of the split, where the data has none of its own

    def open(self, name: str, device: torch.device) -> Setup:
        """Read the network and the data."""
        if ".py:" in self.model or self.model.endswith(".onnx"):
            raise ValueError(
                f"A list of trials may not name a file, and has {self.model}. Name it in a command "
                "or a script instead."
            )
        data = load_data(self.data, seed=self.split)
        outputs = self.classes or len(data.train.classes), channel_count(data.train.example())
        return Setup(name, open_network(self.model, self.weights, *outputs).network, data, device)


def wrong_answers(
    network: nn.Module,
    examples: Source | Iterable[tuple[Any, Tensor]],
    device: torch.device | str | None = None,
    progress: Progress | None = None,
) -> tuple[int, ...]:
    """Return the positions of the examples, a source or batches, that ``network`` gets wrong."""
    watch = progress_of(progress)
    if isinstance(examples, Source):
        watch.start("testing", len(examples))
    # As if they were training examples, because those that it has seen are refused elsewhere.
    return evaluate(network, examples, part="train", device=device, progress=watch).wrong


# --- what trials at one cut share -------------------------------------------------------------


class Cut:
    """Latents, cached views and untrained networks behind one cut, for one seed.

    Of what is large, the last that was asked for is kept, so that trials that follow each other
    should be alike. The ``trial`` is one of them; all have the same :attr:`Trial.shares`. Processes
    share the answers of the teacher in the folder ``lessons``.
    """

    def __init__(
        self, setup: Setup, trial: Trial, progress: Progress, lessons: Path | None = None
    ) -> None:
        self.setup, self.progress, self._trial = setup, progress, trial
        self.lessons = setup.lessons if lessons is None else Lessons(setup.model, lessons)

    @cached_property
    def latents(self) -> Latents:
        """Latents of the examples that ideals are fitted to and scored on."""
        setup, trial = self.setup, self._trial
        where: dict[str, Any] = {"device": setup.device, "progress": self.progress}
        how: dict[str, Any] = {"options": trial.latents, "seed": trial.seed}
        return collect(setup.model, setup.train, trial.cut, **how, **where)

    @cached_property
    def test_latents(self) -> Tensor:
        """Latents (m, C, P) of the test data, in half precision, on the device."""
        latents, test, device = self.latents, self.setup.test, self.setup.device
        batches = test.batches(at_once(test, CHUNK, device), device=device)
        with torch.no_grad():
            return torch.cat([latents.reader(latents.backbone(x)).half() for x, _ in batches])

    def removed_and_shape(self, trial: Trial) -> tuple[float, tuple[int, int]]:
        """Return the share of convolutions that the cut removes, and the shape of the latents."""
        whole, counted = self.setup.model, COUNTED[trial.counting]
        return share_removed(whole, self.latents.backbone, counted), self.latents.shape

    def recipe(self, trial: Trial) -> TrainingOptions:
        """Return how a trial trains: by its seed, and without what its head has no use for."""
        kind = HEADS[trial.head]
        # Polynomials of a baseline have no class to vanish on.
        kept = trial.recipe.vanish if kind.from_ideals or trial.head == "products" else 0.0
        return replace(trial.recipe, seed=trial.seed, vanish=kept)

    def network(self, trial: Trial) -> tuple[CutNetwork, BuildFacts]:
        """Make the untrained network of a trial, with how its head was built."""
        latents = self.latents  # first, because collecting them is a stage of its own
        self.progress.start(HEADS[trial.head].label, 1)
        head = HEADS[trial.head].build(latents, trial.options, trial.seed, Notes(self.progress))
        self.progress.advance(1)
        told = {"head": trial.head, "options": changes(trial.options), "seed": trial.seed}
        return put_behind(latents, head, told)

    def views(self, trial: Trial) -> LatentViews:
        """Return latents of augmented passes over all training data, with logits of a teacher."""
        setup, recipe = self.setup, self.recipe(trial)
        options: dict[str, Any] = {"recipe": recipe, "memory_limit": MAX_VIEW_BYTES}
        options |= {"teacher": setup.model if recipe.distill else None}
        options |= {"device": setup.device, "progress": self.progress}

        def collect_views() -> LatentViews:
            # Any head will do, because views end at the cut; this one needs no polynomials.
            network, _ = self.network(trial.change(head="linear"))
            return cache_latents(network, setup.train, **options)

        return self.latents.once("views", views_of(recipe), collect_views)

    @torch.no_grad()
    def projected(self, trial: Trial, front: Callable[[Tensor], Tensor]) -> LatentViews:
        """Return views behind the frozen part of a head, for all trials that project alike."""
        views = self.views(trial)
        like = getattr(trial.options, "like", trial.options)  # a baseline sees the same variables
        names = ("components", "order", "scale", "pca")
        key = *(getattr(like, name, None) for name in names), *views_of(trial.recipe)
        return self.latents.once("projected", key, lambda: views.through(front, torch.float32))


def views_of(recipe: TrainingOptions) -> tuple[Hashable, ...]:
    """Return what views depend on; the rest of a recipe trains on the same views."""
    drawn = recipe.validation, recipe.augment, bool(recipe.distill)
    return recipe.views, recipe.dtype, recipe.projected, *drawn
