from __future__ import annotations

import pytest
import torch
import typer
from typer.testing import CliRunner

from vinets.cli.errors import OneSentenceGroup, sentence


def program(error: BaseException) -> typer.Typer:
    app = typer.Typer(cls=OneSentenceGroup, pretty_exceptions_enable=False)

    @app.callback()
    def main() -> None:
        pass

    @app.command()
    def fail() -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("psi is\n   too large."), "psi is too large."),
        (TypeError("an odd type"), "an odd type"),
        (FileNotFoundError("x.npy does not exist."), "x.npy does not exist."),
        (FileNotFoundError(2, "No such file or directory", "x"), "x: No such file or directory."),
        (PermissionError(13, "Permission denied", "x"), "x may not be read or written."),
        (ImportError('pip install "vinets[vision]"'), 'pip install "vinets[vision]"'),
        (torch.OutOfMemoryError("CUDA out of memory."), "The GPU ran out of memory."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "The memory of this"),
    ],
)
def test_what_may_happen_is_one_sentence_and_code_2(error, text, monkeypatch):
    result = CliRunner().invoke(program(error), ["fail"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {text}")
    assert result.stderr.count("\n") == 1
    monkeypatch.setenv("VINETS_TRACEBACK", "1")
    assert CliRunner().invoke(program(error), ["fail"]).exception is error


def test_an_interruption_tells_how_to_go_on():
    result = CliRunner().invoke(program(KeyboardInterrupt()), ["fail"])
    assert result.exit_code == 130
    assert (
        result.stderr
        == "Stopped. Run the same command again: it goes on after the last step that was kept.\n"
    )


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("x"), AssertionError()])
def test_a_bug_keeps_its_traceback(error):
    assert sentence(error) is None
    assert CliRunner().invoke(program(error), ["fail"]).exception is error


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "--model", "digits_cnn", "--data", "nowhere", "--out", "x"], "--data must be"),
        (["train", "--model", "nothing", "--data", "digits", "--out", "x"], "--model must be"),
        (["evaluate", "nothing", "--data", "digits"], "NET must be"),
        (["cuts", "nothing"], "MODEL must be"),
        (["bench", "nothing"], "NETS must be"),
        (["export", "vinets/digits-cnn-products", "--out", "x"], "--out must be"),
    ],
)
def test_options_are_named_as_they_are_written(refused, words, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(*words).startswith(f"Error: {text} ")


def test_a_cut_that_is_not_there_is_told_with_the_command_that_lists_them(refused, base, tmp_path):
    told = refused("build", base, "--data", "digits", "--cut", "poool", "--out", tmp_path / "x")
    assert told.startswith("Error: --cut must be") and "pool" in told and "vinets cuts" in told
