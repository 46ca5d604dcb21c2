"""Cut a network at many places and count what vanishes behind each: monomials and dimensions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.algebra.shared import count_monomials
from vinets.checks import one_of, optional_positive_int, parameter_error
from vinets.data.sources import Source, as_source
from vinets.files import slug, write_json
from vinets.fingerprint import fingerprint
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.pruning import as_polynomials
from vinets.latent.cut import CutPoint, cut_points, resolve_cut
from vinets.measure.dimension import Dimensions, class_dimensions, dimension_correlation
from vinets.nn.heads.vanishing import ORDERS
from vinets.pipeline.collect import Latents, collect
from vinets.pipeline.experiment import CHECKPOINTS, WORKING, claim
from vinets.pipeline.placements import Projecting, global_variables
from vinets.pipeline.vanish import timed_ideals
from vinets.progress import Progress, progress_of
from vinets.running import Inputs, each

__all__ = ["ClassFacts", "CutFacts", "sweep", "sweep_correlation"]


@dataclass(frozen=True)
class ClassFacts:
    """What was found in one class behind one cut.

    Attributes
    ----------
    label : int
        The class.
    monomials : int
        Terms that evaluating the generators of this class takes, without the constant: the leading
        terms, and the terms of the order ideal that some generator uses.
    polynomials : int
        Generators of this class.
    dimension : float or None
        Intrinsic dimension of the latents of this class, where it was asked for.
    """

    label: int
    monomials: int
    polynomials: int
    dimension: float | None


@dataclass(frozen=True)
class CutFacts:
    """What was found behind one cut.

    Attributes
    ----------
    cut : str
        Name of the module that the network ends with.
    removed : float
        Share of the convolutional layers that the cut removes, in [0, 1].
    latent_shape : (int, int)
        Channels and positions of the latents.
    examples : int
        Examples of all classes that ideals are fitted to and dimensions are estimated from.
    variables : int
        Principal components, the variables of the polynomials.
    explained_variance : float
        Share of the variance that these keep.
    monomials : int
        Terms that evaluating all generators takes, without the constant. Terms that classes share
        count once.
    polynomials : int
        Generators of all classes.
    seconds : float
        Wall-clock time of fitting the ideals, until the device was done.
    dimension, dimension_std : float or None
        Mean and standard deviation over the classes of the intrinsic dimension of the latents
        themselves, before rescaling and projection.
    classes : tuple of ClassFacts
        The same class by class, by rising label.
    """

    cut: str
    removed: float
    latent_shape: tuple[int, int]
    examples: int
    variables: int
    explained_variance: float
    monomials: int
    polynomials: int
    seconds: float
    dimension: float | None
    dimension_std: float | None
    classes: tuple[ClassFacts, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-able values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CutFacts:
        """What :meth:`to_dict` was called on, also after a way through JSON."""
        channels, positions = values["latent_shape"]
        classes = tuple(ClassFacts(**each) for each in values["classes"])
        return cls(**{**values, "latent_shape": (channels, positions), "classes": classes})


def sweep(
    model: nn.Module,
    train_data: Any,
    cuts: Sequence[str | int],
    *,
    ideal: VanishingIdeal | None = None,
    n_components: int | None = 128,
    order: str = "tanh-pca",
    per_class: int | None = 512,
    neighbours: int = 20,
    dimension: bool = True,
    device: torch.device | str = "cpu",
    seed: int = 0,
    directory: str | Path | None = None,
    progress: Progress | str | None = "auto",
    **collecting: Any,
) -> list[CutFacts]:
    """Count monomials and polynomials, and estimate dimensions, behind every cut.

    The latents are rescaled and projected as in the global placement of
    :func:`vinets.pipeline.build`, and one ideal is fitted to each class. No head is made.

    Parameters
    ----------
    model : Module
        The pretrained network; it is moved to ``device``.
    train_data : data source
        A pair of tensors, a DataLoader, or a source of :mod:`vinets.data`.
    cuts : sequence of str or int
        Where to cut; see :func:`vinets.latent.truncate`. A place that is named twice counts once.
    ideal : ABM, OAVI, VCA or None, default=None
        The algorithm; None is the paper's ``ABM(psi=0.1, max_degree=5)``.
    n_components : int or None, default=128
        The most variables of the polynomials; None takes as many as there are.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Whether to squash or to project first.
    per_class : int or None, default=512
        Examples of every class to fit to; None takes four fifths of all.
    neighbours : int, default=20
        See :func:`vinets.measure.class_dimensions`.
    dimension : bool, default=True
        Estimate intrinsic dimensions; this needs the extra ``dimension``.
    device, seed
        Where to work, and the seed of every draw.
    directory : path or None, default=None
        Keep the facts of every cut there. The same call goes on where it was interrupted, and
        further cuts may be asked for. Other settings in the same folder are refused.
    progress : Progress, "auto" or None
        See :mod:`vinets.progress`.
    **collecting
        Passed to :func:`vinets.pipeline.collect`: ``read``, ``pool``, ``channels_last``,
        ``batch_size``, ``memory_limit``. Latents are not written to disk: those of one cut have
        to fit into ``memory_limit``.

    Returns
    -------
    list of CutFacts
        In the order of ``cuts``.

    Examples
    --------
    >>> from vinets.data import digits
    >>> from vinets.models import digits_cnn
    >>> train = digits().train
    >>> early, late = sweep(digits_cnn(), train, ["relu1", "relu4"], dimension=False)
    >>> early.latent_shape, late.latent_shape, early.removed, late.removed
    ((32, 64), (128, 16), 0.75, 0.0)
    """
    one_of("sweep", "order", order, ORDERS)
    algorithm = ideal if ideal is not None else ABM(psi=0.1, max_degree=5)
    projecting = Projecting(optional_positive_int("sweep", "n_components", n_components), order)
    source = as_source(train_data)
    model = model.to(device)
    places = _places(model, cuts, each(source.example(), lambda tensor: tensor.to(device)))
    shelf = None
    if directory is not None:
        settings = _identity(model, source) | {
            "ideal": {"algorithm": type(algorithm).__name__} | algorithm.get_params(),
            "n_components": n_components,
            "order": order,
            "per_class": per_class,
            "neighbours": neighbours if dimension else None,
            "seed": seed,
            "options": {k: v for k, v in collecting.items() if k not in WORKING},
        }
        shelf = _Shelf(Path(directory), settings)
    watch = progress_of(progress)
    collecting |= {"per_class": per_class, "device": device, "seed": seed, "progress": watch}
    facts = []
    for number, (name, place) in enumerate(places.items(), start=1):
        known = shelf.get(name, place) if shelf else None
        if known is None:
            latents = collect(model, source, name, **collecting)
            watch.start(f"{name}, cut {number} of {len(places)}", 2)
            dimensions = _dimensions(latents, neighbours, seed) if dimension else None
            watch.advance(1)
            known = _measure(latents, algorithm, projecting, place.removed, dimensions, seed)
            watch.advance(1)
            if shelf:
                shelf.put(known, place)
        facts.append(known)
    return facts


def sweep_correlation(facts: Sequence[CutFacts]) -> dict[str, dict[str, Any]]:
    """Correlate intrinsic dimensions with numbers of monomials.

    Parameters
    ----------
    facts : sequence of CutFacts
        At least 3, with dimensions.

    Returns
    -------
    dict
        ``"cuts"``: of the mean dimension with all monomials, one pair per cut. ``"classes"``: of
        the dimension with the monomials of a class, one pair per cut and class; classes behind the
        same cut are alike, so that these p values are too small. Each is a
        :meth:`vinets.measure.Correlation.to_dict`.
    """
    without = [f.cut for f in facts if f.dimension is None]
    if without or len(facts) < 3:
        got = f"none at {', '.join(without)}" if without else f"{len(facts)} cuts"
        remedy = "Run sweep(..., dimension=True) on three cuts or more."
        raise parameter_error(
            "sweep_correlation", "facts", "at least 3 cuts with dimensions", got, remedy
        )
    classes = [c for f in facts for c in f.classes]
    pairs = {
        "cuts": [(f.dimension, f.monomials) for f in facts],
        "classes": [(c.dimension, c.monomials) for c in classes],
    }
    return {
        over: dimension_correlation(*zip(*both, strict=True)).to_dict()
        for over, both in pairs.items()
    }


# --- the cuts ---------------------------------------------------------------------------------


def _places(model: nn.Module, cuts: Sequence[str | int], example: Inputs) -> dict[str, CutPoint]:
    """The names that ``cuts`` stand for, and where they lie; wrong ones are found before work."""
    if isinstance(cuts, str) or not isinstance(cuts, Sequence) or not cuts:
        accepted = "a list of at least one cut"
        remedy = "cut_points(model, example) lists all."
        raise parameter_error("sweep", "cuts", accepted, cuts, remedy)
    points = cut_points(model, example)
    places = {}
    for cut in cuts:
        name = resolve_cut(model, cut, example)
        # a block whose last layer is listed is the same place under another name
        inside = [p for p in points if p.name == name or p.name.startswith(f"{name}.")]
        if not inside:
            raise parameter_error("sweep", "cuts", "modules that the forward pass calls", cut)
        places[name] = next((p for p in inside if p.name == name), inside[-1])
    return places


def _dimensions(latents: Latents, neighbours: int, seed: int) -> Dimensions:
    """Of the flattened latents that ideals are fitted to."""
    store = latents.store
    fit = latents.fit.to(store.labels.device)
    points, labels = store.tensor()[fit], store.labels[fit]
    return class_dimensions(points, labels, neighbours=neighbours, seed=seed)


def _measure(
    latents: Latents,
    ideal: VanishingIdeal,
    projecting: Projecting,
    removed: float,
    dimensions: Dimensions | None,
    seed: int,
) -> CutFacts:
    """Fit the ideals and count what they are made of."""
    made = global_variables(latents, projecting, seed=seed)
    fit = latents.fit.to(made.points.device)
    ideals, seconds = timed_ideals(made.points[fit], made.labels[fit], ideal)
    polynomials = [as_polynomials(i.generators_) for i in ideals.ideals]
    per_class = dimensions.per_class if dimensions else {}
    return CutFacts(
        cut=latents.record.cut,
        removed=removed,
        latent_shape=latents.shape,
        examples=int(fit.sum()),
        variables=made.points.shape[1],
        explained_variance=made.explained,
        monomials=count_monomials(polynomials),
        polynomials=ideals.n_generators,
        seconds=seconds,
        dimension=dimensions.mean if dimensions else None,
        dimension_std=dimensions.std if dimensions else None,
        classes=tuple(
            ClassFacts(label, count_monomials([mine]), len(mine), per_class.get(label))
            for label, mine in zip(ideals.classes.tolist(), polynomials, strict=True)
        ),
    )


# --- the folder -------------------------------------------------------------------------------


class _Shelf:
    """The facts of a sweep on disk, a file for every cut."""

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        claim(folder, settings)
        self.folder = folder / CHECKPOINTS
        self.settings = json.loads(json.dumps(settings, default=str))

    def get(self, name: str, place: CutPoint) -> CutFacts | None:
        """The facts of a cut, unless its file is missing, broken or of another sweep."""
        try:
            kept = json.loads(self._path(name, place).read_text(encoding="utf-8"))
            facts = CutFacts.from_dict(kept["facts"])
            return facts if kept["settings"] == self.settings and facts.cut == name else None
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def put(self, facts: CutFacts, place: CutPoint) -> None:
        """Keep the facts of a cut."""
        kept = {"settings": self.settings, "facts": facts.to_dict()}
        write_json(self._path(facts.cut, place), kept)

    def _path(self, name: str, place: CutPoint) -> Path:
        # the index tells apart what the slug does not
        return self.folder / f"{place.index:03d}-{slug(name)}.json"


def _identity(model: nn.Module, source: Source) -> dict[str, Any]:
    """Tells networks, weights and data apart."""
    example = source.example(min(16, len(source)))
    tensors = example.values() if isinstance(example, Mapping) else [example]
    return {
        "weights": fingerprint(*model.state_dict().values()),
        "data": {"labels": fingerprint(source.labels), "inputs": fingerprint(*tensors)},
    }
