from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar

import pytest
import torch
from cyclopts import App
from hypothesis import given
from hypothesis import strategies as st
from program import run
from safetensors.torch import load_file

import vinets
from vinets.cli import parameters
from vinets.cli.app import parse, sentence
from vinets.cli.parameters import (
    NAMES,
    OUTPUT,
    argument,
    given_options,
    spread,
    takes,
    write_run,
)
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
    assert text == run("build").out == call("build", "--head", "vanishing", "--help").out
    assert "--psi" in text and "--factors" not in text
    assert "--max-degree" not in call("build", "--head=products", "-h").out


@pytest.mark.parametrize("head", HEADS)
def test_no_two_options_of_a_head_have_one_name(head):
    """Two options of one name would hide each other."""
    flags = [flag_of(one) for _, one in settable(head)]
    assert len(flags) == len(set(flags))


# --- files that hold a run --------------------------------------------------------------------

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z-]*", fullmatch=True), PLAIN | st.lists(PLAIN)))
def test_what_is_written_is_read(tmp_path_factory, values):
    path = write_run(tmp_path_factory.mktemp("config"), "train", values)
    facts = {"command": "train", "version": vinets.__version__}
    assert tomllib.loads(path.read_text("utf-8")) == facts | values


@pytest.mark.parametrize(
    "line",
    [
        "train --model digits_cnn --data digits --out o --epochs 1 --no-augment --mean 0.5,0.25 -q",
        "build net --data digits --cut pool --out o --keep 50% --max-degree all --tau inf --half",
        "build net --data digits --cut -1 --out o --head products --factors 3 --no-nesterov",
        "compress net --data digits --budget drop=1 --budget params=50% --out o --no-int8 --flip",
        "reproduce all claims --on digits --seeds 1 --quick --out o",
        "bench a b --batch-sizes 1,4 --threads 2 --amp",
    ],
)
def test_a_file_stands_for_the_line_that_it_was_written_for(tmp_path, line):
    words = line.split()
    call = parse(words)
    path = write_run(tmp_path, words[0], given_options(call.arguments))
    again = parse([words[0], "--config", str(path)])
    ours, theirs = call.bound.arguments, again.bound.arguments
    assert [key for key in ours if key != "common" and ours[key] != theirs[key]] == []
    assert given_options(again.arguments) == given_options(call.arguments)
    assert "quiet" not in tomllib.loads(path.read_text())


def test_a_run_is_repeated_from_its_file(call, tmp_path):
    words = ["--data", "digits", "--epochs", "1", "--no-augment", "--seed", "3", "--quiet"]
    call("train", "--model", "digits_cnn", *words, "--out", tmp_path / "one")
    written = tmp_path / "one" / "run.toml"
    told = call("train", "--config", written, "--out", tmp_path / "two", "--json", "--quiet")
    one, two = (load_file(tmp_path / n / "weights.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert told.json()["recipe"]["seed"] == 3
    values = tomllib.loads(written.read_text())
    second = tomllib.loads((tmp_path / "two" / "run.toml").read_text())
    assert second == values | {"out": str(tmp_path / "two"), "json": True}


def test_a_file_of_options_may_name_the_head(refused, tmp_path):
    path = tmp_path / "run.toml"
    text = "model = 'base'\ndata = 'digits'\ncut = 'pool'\nfactors = 3\nparameters = 2000\n"
    path.write_text(text + "head = 'products'\n")
    arguments = parse(["build", "--config", str(path), "--out", "o"]).bound.arguments
    assert arguments["options"] == {"factors": 3, "parameters": 2000}
    for words in ([], ["--head", "local"]):
        path.write_text(text if not words else text + "head = 'products'\n")
        told = refused("build", "--config", path, *words, "--out", tmp_path / "no")
        assert "is an option of other heads: products" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command = 'build'", "is for vinets build, and this is vinets train"),
        ("epoch = 3", "has no option 'epoch'. Did you mean 'epochs'"),
        ("[train]\nepochs = 3", "has no option 'train'"),
        ("[epochs]\nx = 3", "must be a value or a list of values"),
        ("epochs = ", "is not a TOML file"),
        ("epochs = 'many'", "--epochs must be a positive integer. Got 'many' instead."),
        ("augment = 'no way'", "--augment"),
    ],
)
def test_files_that_are_wrong_are_one_sentence(refused, tmp_path, text, told):
    path = tmp_path / "run.toml"
    path.write_text(text)
    words = ["--model", "digits_cnn", "--data", "digits", "--out", tmp_path / "out"]
    assert told in refused("train", "--config", path, *words)
    assert not (tmp_path / "out").exists()
