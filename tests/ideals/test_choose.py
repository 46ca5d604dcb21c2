from __future__ import annotations

import json
import math

import pytest

from vinets import ABM, OAVI, VCA
from vinets.core.plain import changes, from_plain
from vinets.core.settings import IdealOptions
from vinets.heads import LocalOptions, VanishingOptions
from vinets.ideals.classwise import make_ideal


def test_an_algorithm_is_made_with_what_was_given():
    assert isinstance(make_ideal(IdealOptions("ABM")), ABM)
    assert make_ideal(IdealOptions("vca")).max_degree is None
    made = make_ideal(
        IdealOptions("oavi", 0.2, oracle="agd", tau=5.0), max_degree=4, random_state=3
    )
    expected = OAVI(0.2, oracle="agd", tau=5.0, max_degree=4, random_state=3)
    assert made.get_params() == expected.get_params()
    assert isinstance(make_ideal(IdealOptions("vca"), max_degree=2), VCA)
    made = make_ideal(IdealOptions("oavi", oracle="cg", oracle_start="vertex", oracle_stop="gap"))
    expected = OAVI(0.1, oracle="cg", start="vertex", stop="gap", max_degree=None)
    assert made.get_params() == expected.get_params()


def test_no_bound_is_written_down_and_read_again():
    finding = IdealOptions("oavi", tau="inf")
    assert make_ideal(finding).tau == math.inf
    assert from_plain(IdealOptions, json.loads(json.dumps(changes(finding)))) == finding
    for wrong in (math.inf, math.nan, -1.0, "none"):
        with pytest.raises(ValueError, match="'tau' parameter of IdealOptions"):
            IdealOptions("oavi", tau=wrong)


def test_what_an_algorithm_does_not_have_is_refused():
    with pytest.raises(ValueError, match="tau is no option of abm"):
        make_ideal(IdealOptions("abm", tau=5.0))
    with pytest.raises(ValueError, match="oracle_start is no option of abm"):
        make_ideal(IdealOptions("abm", oracle_start="vertex"))
    with pytest.raises(ValueError, match="must be one of 'abm', 'oavi', 'vca'"):
        make_ideal(IdealOptions("groebner"))


@pytest.mark.parametrize(
    ("kind", "components", "degree"),
    [
        (VanishingOptions, None, 5),
        (VanishingOptions, 8, 5),
        (LocalOptions, None, 1),
        (LocalOptions, 8, 2),
    ],
)
def test_the_degree_that_pays_is_chosen_where_none_is_given(kind, components, degree):
    assert kind(components=components).ideal().max_degree == degree
    assert kind(components=components, max_degree=3).ideal().max_degree == 3
    assert kind(components=components, max_degree=None).ideal().max_degree is None


@pytest.mark.parametrize("kind", [VanishingOptions, LocalOptions])
def test_a_head_refuses_what_its_algorithm_does_not_have(kind):
    assert kind(algorithm="oavi", tau=5.0).ideal().tau == 5.0
    with pytest.raises(ValueError, match="tau is no option of abm"):
        kind(tau=5.0)
    assert kind(algorithm="abm", normalization="leading").ideal().normalization == "leading"
    with pytest.raises(ValueError, match="normalization is no option of vca"):
        kind(algorithm="vca", normalization="unit")
