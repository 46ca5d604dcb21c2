from __future__ import annotations

import pytest

from vinets.heads import MLPHead


@pytest.mark.parametrize("parameters", [60, 500, 12_345])
def test_the_matched_width_is_the_largest_that_fits(parameters):
    head = MLPHead.matched(20, 3, parameters=parameters)
    width = head.hidden.out_features
    stored = sum(head.folded().parts().values())
    wider = sum(MLPHead(20, 3, width=width + 1).folded().parts().values())
    assert stored <= parameters < wider


def test_one_unit_at_least():
    assert MLPHead.matched(200, 3, parameters=10).hidden.out_features == 1


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"'width' parameter of MLPHead"):
        MLPHead(20, 3, width=0)
