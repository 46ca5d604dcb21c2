"""What is computed once and shared: a run is one ideal, one training or one measurement."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vinets.files import slug, write_json

__all__ = ["FULL", "QUICK", "Run", "Scale", "Store"]


@dataclass(frozen=True)
class Scale:
    """How much data and training; results of different scales are kept apart.

    Parameters
    ----------
    per_class : int
        Images a class that ideals are fitted to.
    components : int
        Principal components.
    views : int
        Augmented passes over the training data whose latents are kept.
    epochs : int
        Of training.
    train, test : int or None
        Use so many images a class; None is all.
    repeats, seconds : int, float
        Of the speed measurement.
    """

    per_class: int = 512
    components: int = 128
    views: int = 5
    epochs: int = 20
    train: int | None = None
    test: int | None = None
    repeats: int = 5
    seconds: float = 1.0


FULL = Scale()
QUICK = Scale(
    per_class=24, components=12, views=1, epochs=1, train=40, test=10, repeats=2, seconds=0.01
)


@dataclass(frozen=True)
class Run:
    """One thing to compute.

    Parameters
    ----------
    backbone, cut : str
        Where; speed is measured for all variants at once and has no cut.
    task : {"ideals", "train", "dimension", "speed"}
        What.
    algorithm : {"abm", "oavi-cg", "oavi-agd"}
        How ideals are found.
    psi : float
        Its tolerance on the mean square.
    order : {"pca-tanh", "tanh-pca"}
        Of projection and rescaling.
    scale : {"none", "unit"}
        Of the principal components.
    head : {"vi", "random", "components", "linear", "pooled", "mlp"}
        What is trained; the baselines match the VI head of the same run.
    keep, monomials
        Pruning, as in :func:`vinets.build`.
    seed : int
        Of everything.
    changes : tuple of (str, value)
        What differs from the paper's recipe and from the options of ``build``.
    alone : bool
        Whether nothing else may run beside it, for its time counts.
    """

    backbone: str
    cut: str
    task: str
    algorithm: str = "abm"
    psi: float = 0.1
    order: str = "pca-tanh"
    scale: str = "none"
    head: str = "vi"
    keep: float | int | None = None
    monomials: int | None = None
    seed: int = 0
    changes: tuple[tuple[str, Any], ...] = ()
    alone: bool = False

    @property
    def place(self) -> tuple[str, str, int]:
        """Runs of one place share latents."""
        return self.backbone, self.cut, self.seed

    def name(self, scale: Scale) -> str:
        """Name of its file."""
        facts = json.dumps([asdict(self), asdict(scale)], sort_keys=True)
        digest = hashlib.sha256(facts.encode()).hexdigest()[:12]
        parts = (self.backbone, self.cut, self.task, self.head, digest)
        return slug("-".join(part for part in parts if part))


class Store:
    """Results of runs, one file each below ``folder/runs``; a run that is there is not repeated."""

    def __init__(self, folder: Path, scale: Scale) -> None:
        self.folder, self.scale = folder, scale

    def path(self, run: Run) -> Path:
        return self.folder / "runs" / f"{run.name(self.scale)}.json"

    def missing(self, runs: Iterable[Run]) -> list[Run]:
        """Those without a result, each once."""
        return [run for run in dict.fromkeys(runs) if not self.path(run).is_file()]

    def write(self, run: Run, result: dict[str, Any], facts: dict[str, Any]) -> None:
        """Keep the result of a run, and facts about how it came about."""
        settings = {"run": asdict(run), "scale": asdict(self.scale)}
        write_json(self.path(run), settings | facts | {"result": result})

    def read(self, run: Run) -> dict[str, Any]:
        """The result of a run."""
        result: dict[str, Any] = self.record(run)["result"]
        return result

    def record(self, run: Run) -> dict[str, Any]:
        """All that is kept of a run: its settings, ``machine``, ``took`` and ``result``."""
        path = self.path(run)
        try:
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            facts["result"].items()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} does not hold the result of a run ({error}). Delete it, and run again."
            ) from None
        return facts
