"""The problems of the contract suite, as fixtures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vinets.testing.oracles import CASES, Instance, case, random_instance


@pytest.fixture(scope="session")
def make_instance() -> Callable[..., Instance]:
    return random_instance


@pytest.fixture(scope="session", params=CASES)
def instance(request: pytest.FixtureRequest) -> Instance:
    """One problem of each kind, with its optimum computed once."""
    return case(request.param)
