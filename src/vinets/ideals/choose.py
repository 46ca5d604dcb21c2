"""The choice of the algorithm that options ask for."""

from __future__ import annotations

import inspect
import math
from typing import Any

from vinets.core.checks import one_of
from vinets.core.settings import IdealOptions
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.oavi import OAVI
from vinets.ideals.vca import VCA

ALGORITHMS: dict[str, type[VanishingIdeal]] = {"abm": ABM, "oavi": OAVI, "vca": VCA}
# Options that only some algorithms have, with the names of the estimators' parameters.
OPTIONS = {
    **{name: name for name in ("normalization", "border", "variable_order", "oracle", "tau")},
    "oracle_start": "start",
    "oracle_stop": "stop",
}


def make_ideal(options: IdealOptions, **given: Any) -> VanishingIdeal:
    """An estimator, not fitted.

    Parameters
    ----------
    options : IdealOptions
        Algorithm, tolerance, and options of the estimator; None stands for its default. One that
        this algorithm does not have is refused.
    **given
        Further arguments of the estimator, which override those of ``options``.

    Examples
    --------
    >>> make_ideal(IdealOptions(psi=0.1, border="full"), max_degree=3)
    ABM(border='full', max_degree=3, psi=0.1)
    """
    name = one_of("IdealOptions", "algorithm", options.algorithm.lower(), tuple(ALGORITHMS))
    kind = ALGORITHMS[name]
    wanted = {option: getattr(options, option) for option in OPTIONS} | given
    wanted = {option: value for option, value in wanted.items() if value is not None}
    if wanted.get("tau") == "inf":
        wanted["tau"] = math.inf
    parameters = inspect.signature(kind).parameters
    unknown = [option for option in wanted if OPTIONS.get(option, option) not in parameters]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is no option of {name}. Leave it out, or choose another algorithm."
        )
    # no largest degree unless options name one: the default of estimators is for their users
    wanted = {OPTIONS.get(option, option): value for option, value in wanted.items()}
    return kind(**{"psi": options.psi, "max_degree": given.get("max_degree"), **wanted})
