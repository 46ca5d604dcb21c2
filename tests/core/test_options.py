from __future__ import annotations

import inspect
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from vinets import build, collect
from vinets.core.options import flat
from vinets.core.settings import BACKBONE, IdealOptions, LatentOptions, TrainingOptions
from vinets.heads import MLPHead, VanishingOptions
from vinets.training import fine_tune, train_classifier


@flat(head=VanishingOptions, recipe=TrainingOptions)
def taken(first: int = 1, *, head: VanishingOptions, recipe: TrainingOptions = BACKBONE) -> tuple:
    return first, head, recipe


def test_keywords_change_what_is_given_or_else_the_default_of_the_call():
    assert taken() == (1, VanishingOptions(), BACKBONE)
    assert taken(2, keep=4, epochs=3) == (2, VanishingOptions(keep=4), replace(BACKBONE, epochs=3))
    given = taken(head=VanishingOptions(keep=4, sparse=True), monomials=7)[1]
    assert given == VanishingOptions(keep=4, sparse=True, monomials=7)
    given = taken(recipe=TrainingOptions(clip=1.0), epochs=3)[2]  # not the default of the call
    assert given == TrainingOptions(clip=1.0, epochs=3)


def test_the_signature_shows_every_option_with_its_default():
    shown = inspect.signature(taken).parameters
    assert [*shown][:2] == ["first", "algorithm"] and "head" not in shown
    assert (shown["epochs"].default, shown["keep"].default) == (BACKBONE.epochs, 128)
    every = [one.name for kind in (VanishingOptions, TrainingOptions) for one in fields(kind)]
    assert [*shown] == ["first", *every]


def test_what_is_wrong_is_named_as_that_of_the_call():
    with pytest.raises(TypeError, match=r"^taken has no option 'epoch'. Did you mean 'epochs'\?$"):
        taken(epoch=3)
    with pytest.raises(TypeError, match=r"^taken has no option 'zzz'\.$"):
        taken(zzz=3)
    with pytest.raises(ValueError, match=r"'keep' parameter of taken must be .* share.*Got 0 "):
        taken(keep=0)


@pytest.mark.parametrize(
    ("function", "kind"), [(collect, LatentOptions), (train_classifier, TrainingOptions)]
)
def test_public_calls_take_flat_keywords(function, kind):
    assert {one.name for one in fields(kind)} <= inspect.signature(function).parameters.keys()


@pytest.mark.parametrize("function", [build, collect, fine_tune, train_classifier])
def test_public_calls_refuse_what_is_no_option(function):
    network = SimpleNamespace(head=MLPHead(2, 2, width=1))
    with pytest.raises(TypeError, match=f"^{function.__name__} has no option 'sausage'"):
        function(network, None, sausage=1)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (IdealOptions, "psi", 1.5),
        (IdealOptions, "psi", float("nan")),
        (IdealOptions, "max_degree", 0),
        (IdealOptions, "border", "wide"),
        (VanishingOptions, "keep", 1.5),
        (VanishingOptions, "keep", True),
        (VanishingOptions, "monomials", "all"),
        (LatentOptions, "read", "tokens"),
        (LatentOptions, "reuse", 1),
        (TrainingOptions, "views", 0),
        (TrainingOptions, "learning_rate", -1),
    ],
)
def test_settings_refuse_values_outside_their_domain(kind, name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {kind.__name__} must be .* Got"):
        kind(**{name: value})
