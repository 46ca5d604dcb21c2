"""What the tests start in one or several processes: python job.py WHAT OUT [options].

Results go to OUT/result.safetensors, written by the first rank.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

from vinets.core import ranks
from vinets.data import digits
from vinets.latent.pca import fit_pca
from vinets.latent.rescale import moments
from vinets.measure import evaluate
from vinets.models import digits_cnn
from vinets.runs import build
from vinets.training import fine_tune, train_classifier

DATA = digits().train.subset(torch.arange(203))  # divides by nothing
SMALL = {"components": 6, "keep": 3, "monomials": 16, "per_class": 16}


class Mortal:
    """A progress that ends its process at a step, as if the machine had been switched off.

    A slow one takes its time for every step.
    """

    def __init__(self, step: int, slow: int = 0) -> None:
        self.left, self.slow = step or -1, slow  # none is never reached

    def start(self, stage, total):
        pass

    def advance(self, steps=1, note=""):
        time.sleep(self.slow)
        self.left -= steps
        if self.left == 0 and ranks.rank() == 1:
            os._exit(9)


def train(out: Path, *, die: int = 0, slow: int = 0):
    """A backbone from scratch; an odd batch size, and a held-out part."""
    torch.manual_seed(0)
    model = digits_cnn()
    options = {"epochs": 3, "batch_size": 51, "learning_rate": 0.05, "validation": 0.2}
    progress = Mortal(die, slow) if die or slow else None
    history = train_classifier(model, DATA, directory=out / "steps", progress=progress, **options)
    tested = evaluate(model, DATA, batch_size=64)
    losses = [e.loss for e in history.epochs] + [e.validation_loss for e in history.epochs]
    return model.state_dict(), [*losses, tested.loss, tested.calibration_error], tested.confusion


def tune(out: Path):
    """Backbone and head together, taught by the uncut network: forms, batch norms, products."""
    torch.manual_seed(0)
    model = digits_cnn()
    net, _ = build(model, DATA, "relu3", placement="products", device="cpu", progress=None)
    options = {"epochs": 2, "batch_size": 51, "tune": "all", "augment": False, "clip": 1.0}
    history = fine_tune(net, DATA, teacher=model, progress=None, **options)
    tested = evaluate(net, DATA, batch_size=64)
    return net.state_dict(), [e.loss for e in history.epochs], tested.confusion


def paper(out: Path):
    """Latents, statistics, ideals by class, a local head with polynomials at every position."""
    torch.manual_seed(0)
    net, report = build(
        digits_cnn(), DATA, "relu3", placement="local", device="cpu", progress=None, **SMALL
    )
    found = [report.generators_found, report.generators_kept, report.monomials_kept]
    fine_tune(net, DATA, epochs=1, batch_size=51, progress=None)
    return net.state_dict(), list(map(float, found)), evaluate(net, DATA).confusion


def statistics(out: Path):
    """Moments and components of rows of which every rank has a part of another length."""
    points = torch.randn(101, 7, generator=torch.Generator().manual_seed(1)) * torch.arange(1, 8)
    mine = points[:101] if ranks.size() == 1 else points.tensor_split([30])[ranks.rank()]
    found = {}
    found["mean"], found["std"] = moments(mine.split(11), shared=True)
    wide = torch.randn(9, 20, generator=torch.Generator().manual_seed(2))
    rows = wide if ranks.size() == 1 else wide.tensor_split([4])[ranks.rank()]
    for name, data in {"tall": mine, "wide": rows}.items():
        for method in ("exact", "randomized"):
            pca = fit_pca(lambda d=data: d.split(8), 3, method=method, shared=True)
            found[f"{name} {method}"] = pca.components
            found[f"{name} {method} variances"] = pca.variances
            found[f"{name} {method} mean"] = pca.mean
    return found, [], torch.zeros(1)


def everything(out: Path):
    """All of the above, for starting processes takes longest."""
    state, numbers, confusions = {}, [], []
    for job in (train, tune, paper, statistics):
        tensors, told, confusion = job(out)
        state |= {f"{job.__name__}.{name}": tensor for name, tensor in tensors.items()}
        numbers += told
        confusions.append(confusion.flatten().double())
    return state, numbers, torch.cat(confusions)


def run(what: str, out: Path, timeout: int = 1800, **options: int) -> None:
    with ranks.joined(timeout):
        state, numbers, confusion = globals()[what](out, **options)
        if ranks.rank() == 0:
            tensors = {f"state.{k}": t.detach().clone() for k, t in state.items()}
            tensors["numbers"] = torch.tensor(numbers, dtype=torch.float64)
            tensors["confusion"] = confusion
            save_file({k: t.contiguous() for k, t in tensors.items()}, out / "result.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    options = {k: int(v) for k, v in (word.split("=") for word in sys.argv[3:])}
    run(sys.argv[1], Path(sys.argv[2]), **options)
