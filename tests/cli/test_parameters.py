from __future__ import annotations

import re
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar

import pytest
from cyclopts import App

from vinets.cli import parameters
from vinets.cli.app import sentence
from vinets.cli.parameters import NAMES, OUTPUT, argument, spread, takes
from vinets.core.options import FLAG, Options, choice, count, flag_of, option, real, share
from vinets.core.settings import BYTES, LatentOptions, SpeedOptions, TrainingOptions
from vinets.heads import HEADS


@dataclass(frozen=True)
class CookingOptions(Options):
    """A class of options that nobody knew before."""

    panel: ClassVar[str] = "Kitchen"
    minutes: int | None = option(12, count(), "How long.")
    salt: float | None = option(None, real(0, 1), "How much salt.", shown="to taste")
    heat: str = option("low", choice("low", "high"), "How hot.")
    lid: bool = option(True, FLAG, "Put the lid on.")
    stir: bool = option(False, FLAG, "Stir.", flag="--stirring")
    pot: int = option(4 << 30, BYTES, "Room.", shown="4")
    eaten: int | float | None = option(None, share(), "What is eaten.")


RARE = CookingOptions(minutes=3, lid=False)
done: list[tuple[Any, ...]] = []


@takes(without="pot")
def fry(*, cooking: CookingOptions = RARE) -> None:
    """Have defaults of its own."""
    done.append((cooking,))


@takes()
def cook(
    dish: str = argument("What is cooked: {oracles}.", "soup"),
    *,
    cooking: CookingOptions,
    given: dict[str, Any],
    to_go: bool = OUTPUT.option("Wrap it.", False),
    spoons: list[str] | None = OUTPUT.option("What to eat it with.", None),
) -> None:
    """Cook something."""
    done.append((dish, cooking, given, to_go, spoons))


cook.__annotations__["given"] = spread(
    LatentOptions(), ("pool",), {"soup": LatentOptions(per_class=7)}, switched=True
)


def taken(command, *words: str):
    """What the command gets of its words."""
    app = App(result_action="return_value")
    app.default(command)
    app(words, exit_on_error=False, print_error=False)
    return done[-1]


def shown(command, capsys) -> str:
    app = App()
    app.default(command)
    app.help_print([])
    return re.sub(r"[\s│]+", " ", capsys.readouterr().out)


def test_every_field_is_an_option_with_its_help_default_and_panel(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    told = shown(cook, capsys)
    assert "Kitchen" in told and "--cooking" not in told and "--pool" not in told
    for part in ("--minutes N|all", "[default: 12]", "[default: to taste]", "low or high."):
        assert part in told
    assert "--no-lid" in told and "--stirring" in told and "--no-stirring" not in told
    assert "--to-go" in told and "--no-to-go" not in told and "False" not in told
    assert "[default: 512; 7 for soup]" in told and "pcg, bpcg. [default: soup]" in told
    assert all(one.metadata["help"].rstrip(".") in told for one in fields(CookingOptions))
    assert "[default: 3]" in shown(fry, capsys)


def test_options_change_the_defaults_of_the_command():
    assert taken(cook) == ("soup", CookingOptions(), {}, False, None)
    words = ["--minutes", "all", "--salt", "0.5", "--heat", "high", "--no-lid", "--stirring"]
    cooking = CookingOptions(None, 0.5, "high", False, True, 1 << 29, 0.125)
    more = ["--pot", "0.5", "--eaten", "12.5%", "--per-class", "all", "--no-reuse"]
    assert taken(cook, "stew", *words, *more, "--to-go", "--spoons", "a", "--spoons", "b") == (
        *("stew", cooking, {"per_class": None, "reuse": False}, True, ["a", "b"]),
    )
    assert taken(fry, "--eaten", "7") == (CookingOptions(3, lid=False, eaten=7),)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--minutes", "0"], "--minutes must be a positive integer or all. Got '0' instead."),
        (["--minutes", "many"], "--minutes must be a positive integer or all."),
        (["--minutes", "0.5"], "--minutes must be a positive integer or all."),
        (["--salt", "1"], "--salt must be a number in [0, 1). Got '1' instead."),
        (["--salt", "nan"], "--salt must be a number in [0, 1)."),
        (["--heat", "mild"], "--heat must be 'low' or 'high'. Got 'mild' instead."),
        (["--pot", "-1"], "--pot must be a number of GiB."),
        (["--pot"], "--pot must be followed by a value."),
        (["--pott", "1"], "Unknown option: --pott. Did you mean --pot?"),
        (["stew", "--lid", "hot"], "No argument is left for 'hot'."),
        *(
            (["--eaten", text], "--eaten must be a positive integer, a share such as 50%, or all.")
            for text in ("0%", "101%", "x%", "%", "nan%", "0.5", "-3", "")
        ),
    ],
)
def test_what_is_not_accepted_is_one_sentence_with_its_option(words, message):
    with pytest.raises(Exception) as error:
        taken(cook, *words)
    told = sentence(error.value)
    assert told.startswith(message) and "\n" not in told


@pytest.mark.parametrize("marker", NAMES)
def test_names_in_help_are_those_that_are_registered(marker):
    usual, module, names_in = NAMES[marker]
    assert ", ".join(names_in(import_module(module))) == usual


def test_what_plugins_add_stands_in_the_help(monkeypatch, capsys):
    monkeypatch.setattr(parameters, "entry_points", lambda group: ["one"])
    names = ("one, two", "math", lambda module: ("one", "two", "mine"))
    monkeypatch.setitem(NAMES, "{oracles}", names)

    @takes()
    def ask(*, which: str = OUTPUT.option("Any of {oracles}.")) -> None:
        """Ask."""

    assert "Any of one, two, mine." in shown(ask, capsys)


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
    told = re.sub(r"[\s│]+", " ", call("build", "--head", head, "--help").out)
    brought = HEADS[head].training_defaults
    for panel, one in settable(head):
        assert f"─ {panel} ─" in told and flag_of(one) in told
        assert one.metadata["help"].split("{")[0].rstrip(".") in told
        assert (one.metadata.get("shown") or "") in told or one.name in brought
    for name, value in brought.items():
        assert name == "trained" or isinstance(value, bool) or f"[default: {value}]" in told


def test_the_help_is_that_of_vanishing_ideals_and_has_no_options_of_others(call):
    text = call("build", "--help").out
    for words in ([], ["--head", "vanishing", "--help"]):
        assert call("build", *words).out == text
    assert "--psi" in text and "--factors" not in text
    assert "--max-degree" not in call("build", "--head=products", "-h").out


@pytest.mark.parametrize("head", HEADS)
def test_no_two_options_of_a_head_have_one_name(head):
    """Two options of one name would hide each other."""
    flags = [flag_of(one) for _, one in settable(head)]
    assert len(flags) == len(set(flags))
