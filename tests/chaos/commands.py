"""What is disturbed: small runs of the commands that write folders."""

from __future__ import annotations

from dataclasses import dataclass

BUILD = (
    "--data digits --cut relu3 --per-class 40 --components 8 --keep 4 "
    "--monomials 32 --max-degree 2 --epochs 2 --seconds 0.01 --repeats 2 --batch 16 "
    "--baselines --views 1"
)
PAPER = "fig-monomials table-choices --on digits --quick --seeds 1 --json"


@dataclass(frozen=True)
class Command:
    """One command line; it writes into ``out``, below the folder where it is run."""

    name: str
    line: str
    share: float = 1.0  # of the trials

    @property
    def words(self) -> list[str]:
        return ["vinets", *self.line.split(), "--out", "out", "--device", "cpu", "--quiet"]


COMMANDS = (
    Command("train", "train --model digits_cnn --data digits --epochs 4"),
    Command("build", f"build base {BUILD}"),
    Command(
        "compress",
        "compress base --data digits --budget params=30% --limit 300 --cuts 1 --epochs 2 --no-int8",
    ),
    Command("reproduce", f"reproduce {PAPER}", 0.5),
    Command("reproduce, 2 jobs", f"reproduce {PAPER} --jobs 2", 0.7),
)
BASE = Command("base", "train --model digits_cnn --data digits --epochs 1")
