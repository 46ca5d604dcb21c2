"""The algorithm by its name, with options of which only some may be given."""

from __future__ import annotations

import inspect
from typing import Any

from vinets.checks import one_of
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.oavi import OAVI
from vinets.ideals.vca import VCA

__all__ = ["ALGORITHMS", "make_ideal"]

ALGORITHMS: dict[str, type[VanishingIdeal]] = {"abm": ABM, "oavi": OAVI, "vca": VCA}


def make_ideal(algorithm: str, psi: float, max_degree: int, **given: Any) -> VanishingIdeal:
    """An estimator, not fitted.

    Parameters
    ----------
    algorithm : {"abm", "oavi", "vca"}
        Which one.
    psi : float
        The tolerance.
    max_degree : int
        The largest degree; 0 is no limit.
    **given
        Options of the estimator; None stands for its default. One that this algorithm does not
        have is refused.

    Examples
    --------
    >>> make_ideal("abm", 0.01, 3, border="full", tau=None)
    ABM(border='full', max_degree=3, psi=0.01)
    """
    kind = ALGORITHMS[one_of("make_ideal", "algorithm", algorithm.lower(), tuple(ALGORITHMS))]
    wanted = {name: value for name, value in given.items() if value is not None}
    known = inspect.signature(kind).parameters
    for name in wanted:
        if name not in known:
            raise ValueError(
                f"{name} is no option of {algorithm}. Leave it out, or choose another algorithm."
            )
    return kind(psi=psi, max_degree=max_degree or None, **wanted)
