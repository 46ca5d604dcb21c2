from __future__ import annotations

import pytest

from vinets import ABM, OAVI, VCA
from vinets.ideals.choose import make_ideal


def test_an_algorithm_is_made_with_what_was_given():
    assert isinstance(make_ideal("ABM", 0.1, 0, tau=None), ABM)
    assert make_ideal("vca", 0.1, 0).max_degree is None
    made = make_ideal("oavi", 0.2, 4, oracle="agd", tau=5.0, border=None)
    assert made.get_params() == OAVI(0.2, oracle="agd", tau=5.0, max_degree=4).get_params()
    assert isinstance(make_ideal("vca", 0.1, 2), VCA)


def test_what_an_algorithm_does_not_have_is_refused():
    with pytest.raises(ValueError, match="tau is no option of abm"):
        make_ideal("abm", 0.1, 2, tau=5.0)
    with pytest.raises(ValueError, match="must be one of 'abm', 'oavi', 'vca'"):
        make_ideal("groebner", 0.1, 2)
