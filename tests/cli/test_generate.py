from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from vinets.cli.generate import takes
from vinets.core.options import (
    Options,
    choice,
    count,
    flag,
    flag_of,
    gibibytes,
    option,
    optional,
    real,
    share,
)
from vinets.core.settings import LatentOptions, SpeedOptions, TrainingOptions
from vinets.heads import HEADS


@dataclass(frozen=True)
class Cooking(Options):
    """A class of settings that nobody knew before."""

    panel: ClassVar[str] = "Kitchen"
    minutes: int | None = option(12, count(), "How long.")
    salt: float | None = option(None, optional(real(0, 1)), "How much salt.", shown="to taste")
    heat: str = option("low", choice("low", "high"), "How hot.")
    lid: bool = option(True, flag(), "Put the lid on.")
    stir: bool = option(False, flag(), "Stir.", flag="--stirring")
    pot: int = option(4 << 30, gibibytes(), "Room.", shown="4")
    eaten: int | float | None = option(None, share(), "What is eaten.")


def program(command) -> typer.Typer:
    app = typer.Typer()
    app.command()(command)
    return app


def shown(command, *words: str) -> str:
    result = CliRunner().invoke(program(command), words, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    return result.output


def cook(cooking: Cooking, name: str = "soup") -> None:
    print(name, cooking)


def told(*words: str, start: Cooking | None = None) -> Cooking:
    found = []

    @takes(cooking=Cooking)
    def keep(cooking: Cooking = start or Cooking()) -> None:  # noqa: B008 - frozen
        found.append(cooking)

    shown(keep, *words)
    return found[0]


def test_every_field_is_an_option_with_its_help_default_and_panel():
    text = shown(takes(cooking=Cooking)(cook), "--help")
    assert "Kitchen" in text and "--name" in text and "--cooking" not in text
    for part in ("--minutes", "N|all", "[default: 12]", "(to taste)", "low or high.", "--no-lid"):
        assert part in text
    assert "--stirring" in text and "--no-stirring" not in text
    assert all(one.metadata["help"].rstrip(".") in text for one in fields(Cooking))


def test_options_change_the_defaults_of_the_command():
    assert told() == Cooking()
    words = ["--minutes", "all", "--salt", "0.5", "--heat", "high", "--no-lid", "--stirring"]
    found = told(*words, "--pot", "0.5", "--eaten", "12.5%")
    assert found == Cooking(None, 0.5, "high", False, True, 1 << 29, 0.125)
    assert told(start=Cooking(minutes=3, lid=False)) == Cooking(minutes=3, lid=False)
    assert told("--eaten", "7", start=Cooking(minutes=3)) == Cooking(minutes=3, eaten=7)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--minutes", "0"], "--minutes must be a positive integer or all. Got '0' instead."),
        (["--minutes", "many"], "--minutes must be a positive integer or all."),
        (["--minutes", "0.5"], "--minutes must be a positive integer or all."),
        (["--salt", "1"], "--salt must be a number in [0, 1). Got 1.0 instead."),
        (["--salt", "nan"], "--salt must be a number in [0, 1)."),
        (["--heat", "mild"], "--heat must be 'low' or 'high'. Got 'mild' instead."),
        (["--pot", "-1"], "--pot must be a number of GiB."),
        *(
            (["--eaten", text], "--eaten must be a positive integer, a share such as 50%, or all.")
            for text in ("0%", "101%", "x%", "%", "nan%", "0.5", "-3", "")
        ),
    ],
)
def test_values_outside_their_domain_are_named_with_their_option(words, message):
    result = CliRunner().invoke(program(takes(cooking=Cooking)(cook)), words)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)


def test_fields_may_be_left_out_and_defaults_left_open():
    given = []

    @takes(("lid",), {"cooking": lambda name: f"{name} of the recipe"}, cooking=Cooking)
    def later(
        cooking: dict[str, object], name: Annotated[str, typer.Option(help="Of the dish.")] = "soup"
    ) -> None:
        given.append(cooking)

    text = shown(later, "--help")
    assert "--lid" not in text and "heat of the recipe" in text
    shown(later, "--heat", "high", "--no-stirring")
    assert given == [{"heat": "high", "stir": False}]


@dataclass(frozen=True)
class Kitchen:
    """Groups inside of a group, and a field that is annotated for typer."""

    cook: Annotated[str, typer.Option("--cook", help="Who cooks.")]
    first: Cooking = Cooking(minutes=3)
    cups: Annotated[int, typer.Option("--cups", help="How many cups.")] = 2


@dataclass(frozen=True)
class Menu:
    """Fields that are annotated for typer without a name."""

    hot_plates: Annotated[int, typer.Option(help="How many.")] = 2
    sweet: Annotated[bool, typer.Option(help="Something sweet.")] = False


def test_groups_may_be_nested_and_their_fields_annotated():
    given = []

    @takes(kitchen=Kitchen)
    def prepare(kitchen: Kitchen) -> None:
        given.append(kitchen)

    text = shown(prepare, "--help")
    assert "How many cups." in text and "[required]" in text and "[default: 3]" in text
    shown(prepare, "--cook", "Ann", "--heat", "high")
    assert given == [Kitchen("Ann", Cooking(minutes=3, heat="high"), 2)]
    assert CliRunner().invoke(program(prepare), []).exit_code == 2


def settable(head: str) -> list:
    """The fields that are options of build with a head, with the panel of each."""
    kinds = (HEADS[head].Options, LatentOptions, TrainingOptions, SpeedOptions)
    return [
        (kind.panel, one)
        for kind in kinds
        for one in fields(kind)
        # the seed is that of the command
        if "domain" in one.metadata and one.name != "seed"
    ]


@pytest.mark.parametrize("head", ["vanishing", "local", "products", "ridge"])
def test_the_help_of_build_holds_every_option_of_the_head(call, head):
    out = call("build", "--head", head, "--help").out
    text = re.sub(r"[\s│]+", " ", out)  # lines of a box, joined
    brought = HEADS[head].training_defaults
    for panel, one in settable(head):
        assert f"─ {panel} ─" in text and flag_of(one) in text
        assert one.metadata["help"].split("{")[0].rstrip(".") in text
        assert (one.metadata.get("shown") or "") in text or one.name in brought
    for name, value in brought.items():
        assert name == "trained" or isinstance(value, bool) or f"[default: ({value})]" in text


def test_the_help_is_that_of_vanishing_ideals_and_has_no_options_of_others(call):
    text = call("build", "--help").out.rstrip()
    for words in ([], ["--head", "vanishing", "--help"]):
        assert call("build", *words).out.rstrip() == text
    assert "--psi" in text and "--factors" not in text
    assert "--max-degree" not in call("build", "--head=products", "-h").out


@pytest.mark.parametrize("head", HEADS)
def test_no_two_options_of_a_head_have_one_name(head):
    """Two options of one name would hide each other."""
    flags = [flag_of(one) for _, one in settable(head)]
    assert len(flags) == len(set(flags))


def test_an_option_without_a_name_has_that_of_its_field_and_a_bool_no_opposite():
    given = []

    @takes(menu=Menu)
    def serve(menu: Menu, to_go: Annotated[bool, typer.Option(help="Wrap it.")] = False) -> None:
        given.append((menu, to_go))

    text = shown(serve, "--help")
    assert "--hot-plates" in text and "--to-go" in text and "--no-" not in text
    shown(serve, "--hot-plates", "3", "--to-go", "--sweet")
    assert given == [(Menu(3, True), True)]
