"""Points that are hard on a factorisation, and estimators to fit to them, by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from vinets import ABM, OAVI, VCA

PSI = (0.0, 0.0, 1e-18, 1e-12, 1e-8, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999)
KINDS = (
    "uniform",
    "repeated points",
    "constant columns",
    "collinear",
    "low rank",
    "curve",
    "grid",
    "integers",
    "one point",
    "more variables than points",
    "zeros",
    "clusters",
)
ORACLES = ("exact", "cg", "pcg", "bpcg", "agd")


@dataclass(frozen=True)
class Case:
    """One fit: what is given, and what it is to be fitted by."""

    about: str
    given: Any  # array or tensor
    estimator: Any
    beside: Any = None  # points fitted in the same batch

    @property
    def points(self) -> np.ndarray:
        """What is given, in float64, as every fit takes it."""
        if isinstance(self.given, torch.Tensor):
            return self.given.double().numpy()
        return np.asarray(self.given, dtype=np.float64)


def make(seed: int, number: int) -> Case:
    """The case of that number: the same, whatever was made before."""
    random = np.random.default_rng([seed, number])
    kind = str(random.choice(KINDS))
    points = _points(kind, random)
    scale = 1.0
    if kind != "integers" and random.random() < 0.4:
        scale = 10.0 ** random.choice([-200, -30, -12, -6, -3, -1, 1, 2, 4, 9, 40, 160])
    points = points * scale
    given, dtype = _in_dtype(points, kind, random)
    estimator = _estimator(given.shape, random)
    beside = None
    if isinstance(given, torch.Tensor) and given.is_floating_point() and random.random() < 0.3:
        rows = random.integers(1, 12)
        beside = torch.from_numpy(random.uniform(-1, 1, (rows, given.shape[1])))
    together = "" if beside is None else ", two at once"
    about = f"{kind} {given.shape[0]} x {given.shape[1]}, scale {scale:g}, {dtype}{together}"
    return Case(f"{about}; {estimator!r}".replace("\n", " "), given, estimator, beside)


def _points(kind: str, random: np.random.Generator) -> np.ndarray:
    m, n = int(random.integers(2, 26)), int(random.integers(1, 5))
    if kind == "one point":
        m = 1
    elif kind == "more variables than points":
        n, m = int(random.integers(5, 12)), int(random.integers(1, 5))
    free = random.uniform(-1, 1, (m, n))
    if kind == "repeated points":
        return free[random.integers(0, max(1, m // 4), m)]
    if kind == "constant columns":
        free[:, random.random(n) < 0.6] = random.choice([0.0, 1.0, -1.0, 0.3])
    elif kind == "collinear":
        free = random.uniform(-0.5, 0.5, n) + random.uniform(-0.5, 0.5, (m, 1)) * free[:1]
    elif kind == "low rank":
        free = random.uniform(-1, 1, (m, 2)) @ random.uniform(-0.5, 0.5, (2, n))
    elif kind == "curve":
        t = random.uniform(-1, 1, (m, 1))
        free = np.concatenate([np.cos(t + i) if i % 2 else t ** (1 + i // 2) for i in range(n)], 1)
    elif kind == "grid":
        free = random.integers(-1, 2, (m, n)).astype(float)
    elif kind == "integers":
        top = int(random.choice([1, 5, 255, 10**6, 10**18]))
        return random.integers(-top if random.random() < 0.5 else 0, top + 1, (m, n)).astype(float)
    elif kind == "zeros":
        free = np.zeros((m, n))
    elif kind == "clusters":
        free = free[random.integers(0, 3, m) % m]
        free = free + random.choice([1e-3, 1e-7, 1e-11, 1e-15]) * random.standard_normal((m, n))
    return free


def _in_dtype(points: np.ndarray, kind: str, random: np.random.Generator) -> tuple[Any, str]:
    if kind == "integers" and random.random() < 0.5:
        whole = points.astype(np.int64)
        return (torch.from_numpy(whole) if random.random() < 0.5 else whole), "int64"
    choice = random.choice(["numpy", "numpy32", "float64", "float32", "float16", "bfloat16"])
    if choice == "numpy":
        return points, choice
    with np.errstate(over="ignore"):
        if choice == "numpy32":
            return points.astype(np.float32), choice
        return torch.from_numpy(points).to(getattr(torch, choice)), str(choice)


def _estimator(shape: tuple[int, int], random: np.random.Generator) -> Any:
    n = shape[1]
    psi = float(random.choice(PSI))
    if random.random() < 0.15:
        psi = float(10.0 ** random.uniform(-20, -0.001))
    highest = {1: 9, 2: 6, 3: 4, 4: 3}.get(n, 2)
    degree: int | None = int(random.integers(1, highest + 1))
    if n <= 2 and random.random() < 0.2:
        degree = None
    which = random.random()
    if which < 0.15:
        return VCA(psi=psi, max_degree=min(degree or 4, 4))
    common: dict[str, Any] = {"psi": psi, "max_degree": degree}
    if random.random() < 0.25:
        common["precision"] = str(random.choice(["float32", "float16", "bfloat16"]))
    elif random.random() < 0.3:
        common["border"] = "full"
    if which < 0.6:
        return ABM(normalization=str(random.choice(["unit", "unit", "leading"])), **common)
    tau = float(random.choice([2.0, 3.0, 10.0, 1000.0, 1000.0, 1e9]))
    if degree is None:
        common["max_degree"] = highest  # inside a small ball the border need not end
    if tau < 1000 and psi < 1e-6:  # problems that take long: small ones
        common["max_degree"] = min(common["max_degree"], 3 if n < 3 else 2)
    return OAVI(oracle=str(random.choice(ORACLES)), tau=tau, **common)
