"""Fit, judge, count."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from reference import candidates_of

from degenerate import loop
from degenerate.cases import Case, make
from degenerate.loop import EPS, Columns, Judged, Term
from vinets import OAVI, VCA
from vinets.ideals.base import RoundingWarning, ScaleWarning, fit_ideals

# what is no more than 0 when it is squared or stored
TINY = {"float64": 1e-150, "float32": 1e-37, "bfloat16": 1e-37, "float16": 1e-4}
SINGLE = float(np.finfo(np.float32).eps)


@dataclass
class Report:
    """What came of a number of fits."""

    seed: int
    fits: int = 0
    errors: Counter[str] = field(default_factory=Counter)  # named ones, by their first words
    decisions: int = 0
    open: int = 0
    generators: int = 0
    warned: int = 0
    slowest: tuple[float, str] = (0.0, "")
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        named = [f"  {count:5} x {text}" for text, count in self.errors.most_common()]
        return "\n".join(
            [
                f"seed {self.seed}: {self.fits:,} fits, {self.generators:,} generators, "
                f"{self.errors.total():,} refused by name, {self.warned:,} warned",
                *named,
                f"{self.decisions:,} decisions judged by the independent loop, of which "
                f"{self.open:,} are open within rounding; {len(self.failures)} failures",
                f"slowest fit {self.slowest[0]:.1f} s ({self.slowest[1]})",
                *self.failures[:60],
            ]
        )


def run(seed: int, numbers: range, seconds: float | None = None) -> Report:
    """Fit and judge the cases of these numbers."""
    torch.set_num_threads(1)
    report = Report(seed)
    end = None if seconds is None else time.monotonic() + seconds
    for number in numbers:
        if end is not None and time.monotonic() > end:
            break
        case = make(seed, number)
        for fault in _one(case, report):
            report.failures.append(f"fit {number} ({case.about}): {fault}")
    return report


def _one(case: Case, report: Report) -> list[str]:
    """Faults of one fit."""
    report.fits += 1
    begin = time.perf_counter()
    try:
        warned = _fit(case)
    except (ValueError, MemoryError) as error:
        return _refused(case, str(error), report)
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        report.slowest = max(report.slowest, (time.perf_counter() - begin, case.about))
    report.warned += warned
    report.generators += len(case.estimator.generators_)
    faults = mean_squares(case, warned)
    with np.errstate(all="ignore"):
        judged = components(case) if isinstance(case.estimator, VCA) else decisions(case)
    report.decisions += judged.decisions
    report.open += judged.open
    return faults + judged.faults


def _fit(case: Case) -> bool:
    """Fit; whether it warned that generators may not vanish."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if case.beside is None:
            case.estimator.fit(case.given)
        else:
            other = type(case.estimator)(**case.estimator.get_params())
            case.estimator._check()
            given = case.estimator._points(case.given, reset=True)
            fit_ideals([case.estimator, other], [given, case.beside.to(given.dtype)])
    # beyond [-1, 1], of which a fit warns, too, the tolerance has no meaning
    return any(issubclass(w.category, RoundingWarning | ScaleWarning) for w in caught)


def _refused(case: Case, text: str, report: Report) -> list[str]:
    report.errors[" ".join(text.split()[:6])] += 1
    if not text.strip().endswith(".") or "\n" in text.strip():
        return [f"no sentence: {text!r}"]
    points, low = case.points, getattr(case.estimator, "precision", "float64") != "float64"
    if np.isfinite(points).all() and np.abs(points).max() <= 1 and not low:
        return [f"refused, though the points lie in [-1, 1]: {text}"]
    return []


def mean_squares(case: Case, warned: bool) -> list[str]:
    """What the generators are on the points, in long double, against what is said of them."""
    estimator = case.estimator
    said, faults = estimator.mean_squares_, []
    values = estimator.transform(case.given)
    values = values.numpy() if isinstance(values, torch.Tensor) else values
    found = np.mean(np.square(values.astype(np.longdouble)), 0) if len(said) else said
    if not np.isfinite(said).all() or not np.isfinite(values).all():
        return ["not finite"]
    if len(said) == 0:
        return []
    sizes = np.maximum(1.0, np.sqrt(found))
    if not isinstance(estimator, VCA):
        polynomials = estimator.generators_
        tail, lead = polynomials.tail.numpy(), polynomials.lead.numpy()
        if not np.isfinite(tail).all() or not np.isfinite(lead).all():
            return ["coefficients are not finite"]
        wide = case.points.astype(np.longdouble)
        low, high = (
            np.prod(wide[:, None, :] ** e.astype(np.int64)[None], axis=2)
            for e in (estimator.order_ideal_, estimator.leading_terms_)
        )
        found = np.mean(np.square(low @ tail.T + high * lead), 0)
        absolute = np.abs(low) @ np.abs(tail.T) + np.abs(high * lead)
        sizes = np.sqrt(np.mean(np.square(absolute), 0))
    psi, said = estimator.psi, said.astype(np.longdouble)
    off = np.abs(np.sqrt(said) - np.sqrt(found)) > loop.SURE * EPS * sizes + TINY["float64"]
    # values out of a Gram matrix: the same in squares, for tolerances that are far above
    gram = estimator.report_.path == "gram" and estimator.report_.precision == "float64"
    if gram and np.abs(case.points).max() <= 1 + 1e-6:
        off &= np.abs(said - found) > np.maximum(1e-9 * psi, 64 * EPS * sizes**2)
    if off.any():
        at = int(np.argmax(off))
        faults.append(
            f"mean_squares_ of {int(off.sum())} generators is wrong: {float(said[at]):.3g}, and "
            f"{float(found[at]):.3g} on the points"
        )
    tiny = TINY[estimator.report_.precision]
    most = psi * (1 + 1e-6 if estimator.report_.precision == "float64" else 2)
    beyond = found > most + np.square(64 * loop.SURE * EPS * sizes + tiny)
    if beyond.any() and not warned:
        at = int(np.argmax(beyond))
        faults.append(f"a generator of mean square {float(found[at]):.3g} above psi, unannounced")
    return faults


def decisions(case: Case) -> Judged:
    """Every decision of ABM or OAVI, judged by the plain loop along its own way."""
    estimator, points = case.estimator, case.points
    m, n = points.shape
    precision = estimator.precision
    gram = estimator.report_.path == "gram"
    eps = EPS if precision == "float64" or not gram else SINGLE
    accepted, vanished = _terms(estimator.order_ideal_), _terms(estimator.leading_terms_)
    kept, found = set(accepted), set(vanished)
    columns = Columns(loop.round_to(np.full(m, m**-0.5), precision))
    stored = loop.round_to(points, precision)
    judged, order, level = Judged(), [()], [()]
    degree = 1
    while level and degree <= (estimator.max_degree or 10**9):
        candidates = candidates_of(level, set(order), n, degree, estimator.border)
        level = []
        for u in candidates:
            values = _evaluated(u, columns, stored, precision)
            if isinstance(estimator, OAVI):
                radius = estimator.tau - 1
                verdict = loop.in_ball(columns, values, estimator.psi, radius, gram, eps)
            else:
                rule = loop.by_unit if estimator.normalization == "unit" else loop.by_leading
                verdict = rule(columns, values, estimator.psi, gram, eps)
            judged.decisions += 1
            judged.open += verdict.vanishes is None
            if (u in kept) == (u in found):
                judged.faults.append(f"{u} is in both or neither of order ideal and generators")
                return judged
            if verdict.vanishes is not None and verdict.vanishes != (u in found):
                said = "a generator" if u in found else "in the order ideal"
                judged.faults.append(
                    f"{u} is {said}; its mean square is {verdict.value:.6g} ± {verdict.slack:.2g}"
                )
                return judged
            if u in kept:
                order.append(u)
                level.append(u)
                columns.add(u, values)
        degree += 1
    if order != accepted or len(order) + len(found) != 1 + judged.decisions:
        judged.faults.append("terms that were never on the border, or in another order")
    _coefficients(estimator, judged)
    return judged


def _terms(exponents: np.ndarray) -> list[Term]:
    return [tuple(int(i) for i in np.repeat(np.arange(len(e)), e)) for e in exponents]


def _evaluated(u: Term, columns: Columns, stored: np.ndarray, precision: str) -> np.ndarray:
    """Values of a term over sqrt(m): those of a divisor times a variable, as they are stored."""
    for i in reversed(u):
        at = len(u) - 1 - u[::-1].index(i)
        parent = u[:at] + u[at + 1 :]
        if parent in columns.values:
            return loop.round_to(columns.values[parent] * stored[:, i], precision)
    raise AssertionError(f"no divisor of {u} was accepted")


def _coefficients(estimator: Any, judged: Judged) -> None:
    """What the rule says of the coefficients themselves."""
    generators = estimator.generators_
    if len(generators) == 0:
        return
    tail, lead = generators.tail.numpy(), generators.lead.numpy()
    if isinstance(estimator, OAVI):
        total = np.abs(tail).sum(1) + 1
        if (lead != 1).any() or (total > estimator.tau * (1 + 1e-9) + 1e-12).any():
            judged.faults.append(f"coefficients of l1 norm {total.max():.12g}")
    elif estimator.normalization == "unit":
        norms = np.sqrt(np.square(tail).sum(1) + lead**2)
        if np.abs(norms - 1).max() > 1e-9:
            judged.faults.append(f"coefficients of norm {norms[np.abs(norms - 1).argmax()]:.12g}")
    elif (lead != 1).any():
        judged.faults.append("a leading coefficient that is not 1")


def components(case: Case) -> Judged:
    """Every level of VCA: how many polynomials were kept, and how many vanish."""
    estimator, points = case.estimator, case.points
    m, n = points.shape
    judged, psi = Judged(), estimator.psi
    index = {t: i for i, t in enumerate(loop.terms_up_to(n, len(estimator.generators_.levels)))}
    # Values on the points, and coefficients: of the constant, and of the variables.
    kept_values, kept = np.ones((m, 1)), np.eye(1, len(index))
    variables = np.array([[float(term == (i,)) for term in index] for i in range(n)])
    newest, linear = (kept_values, kept), (points, variables)
    # coefficients count by what they make of points of this size
    reach = max(1.0, float(np.abs(points).max())) ** np.array([len(term) for term in index])
    for at, level in enumerate(estimator.generators_.levels):
        left, right = level.left.numpy(), level.right.numpy()
        keep, vanish = level.keep.numpy(), level.vanish.numpy()
        values = newest[0][:, left] * linear[0][:, right]
        written = np.array(
            [_product(newest[1][i], linear[1][j], index) for i, j in zip(left, right, strict=True)]
        ).reshape(len(left), len(index))
        projection = level.projection.numpy()
        rest = values - kept_values @ projection
        rest = rest - kept_values @ (kept_values.T @ rest / m)  # what rounding left of it
        coefficients = written - projection.T @ kept
        if not np.isfinite(coefficients * reach).all():
            judged.decisions, judged.open = judged.decisions + len(left), judged.open + len(left)
            return judged
        u, sizes, _ = np.linalg.svd(coefficients * reach, full_matrices=False)
        top = np.linalg.norm(written * reach) or 1.0
        rank, wide = int((sizes > 1e-9 * top).sum()), int((sizes > 1e-12 * top).sum())
        candidates = keep.shape[1] + vanish.shape[1]
        judged.decisions += len(left)
        if rank != wide:
            judged.open += len(left)
        elif candidates != rank and keep.shape[1]:
            judged.faults.append(f"degree {at + 1}: {candidates} components of {rank}")
            return judged
        else:
            sigma = np.linalg.svd(rest @ u[:, :rank] / m**0.5, compute_uv=False)
            noise = loop.SURE * EPS * float(np.sqrt(np.square(values).mean(0).sum()))
            most = int((sigma > psi**0.5 * (1 - 1e-9) - noise).sum())
            least = int((sigma > psi**0.5 * (1 + 1e-9) + noise).sum())
            judged.open += most - least
            last = at + 1 == len(estimator.generators_.levels)
            if not least <= keep.shape[1] <= most and not (last and keep.shape[1] == 0):
                judged.faults.append(
                    f"degree {at + 1}: {keep.shape[1]} kept, and {least} to {most} are above psi"
                )
                return judged
        values = rest @ keep
        gram = np.abs(values.T @ values / m - np.eye(keep.shape[1]))
        if keep.shape[1] and gram.max() > 1e-6:
            judged.faults.append(f"degree {at + 1}: kept polynomials are not orthonormal")
            return judged
        newest = values, keep.T @ coefficients
        if at == 0:
            linear = newest
        kept_values = np.concatenate([kept_values, values], axis=1)
        kept = np.concatenate([kept, newest[1]])
    return judged


def _product(f: np.ndarray, g: np.ndarray, index: dict[Term, int]) -> np.ndarray:
    """Coefficients of a product of polynomials."""
    terms, out = list(index), np.zeros(len(index))
    for i in np.flatnonzero(f):
        for j in np.flatnonzero(g):
            out[index[tuple(sorted(terms[i] + terms[j]))]] += f[i] * g[j]
    return out
