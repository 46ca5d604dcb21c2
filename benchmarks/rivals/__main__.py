"""The command line of the rivals."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.rivals import __doc__ as ABOUT
from benchmarks.rivals.plan import PLANS, SIZES, Rival
from benchmarks.rivals.speed import PARTS, measure, trials_in
from benchmarks.rivals.table import rows, table
from benchmarks.rivals.train import Call, run
from benchmarks.tuning import NETWORKS, files
from vinets.core.device import resolve_device
from vinets.core.files import write_json
from vinets.core.settings import SampleOptions

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="python -m benchmarks.rivals",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tasks = whole.add_subparsers(dest="task", required=True)
    train = tasks.add_parser("train", help="train rivals, and test them")
    train.add_argument("plans", nargs="+", choices=PLANS)
    train.add_argument("--given", nargs="+", choices=NETWORKS, default=[*NETWORKS])
    train.add_argument("--epochs", type=int, help="other than those of the recipes, 24")
    train.add_argument("--seeds", type=int, default=1)
    train.add_argument("--weights", default="weights", help="folder of the given networks")
    train.add_argument("--cifar10", default="data")
    train.add_argument("--cifar100", default="data")
    train.add_argument("--sample", type=int, help="images of a class, to try it out")
    train.add_argument("--jobs", type=int, default=1, help="processes side by side")
    train.add_argument("--minutes", type=float, default=7.0, help="when to end, to go on later")
    train.add_argument("--recorded", action="store_true", help="replay steps on a GPU")
    speed = tasks.add_parser("speed", help="images per second, in turns, random weights")
    speed.add_argument("given", choices=NETWORKS)
    speed.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    speed.add_argument("--weights", type=Path, help="folder of the given networks, for pruning")
    speed.add_argument("--trials", type=Path, nargs="+", default=[], help="stores of product heads")
    speed.add_argument("--batch", type=int, default=256, help="images at once on the device")
    speed.add_argument("--steps", type=int, default=40, help="of training that are timed")
    speed.add_argument("--repeats", type=int, default=5, help="windows of every network")
    speed.add_argument("--seconds", type=float, default=0.4, help="length of a window")
    speed.add_argument("--amp", action="store_true", help="bfloat16 on the device")
    speed.add_argument("--channels-last", action="store_true", help="on the device")
    speed.add_argument("--recorded", action="store_true", help="a pass as a CUDA graph")
    for one in (train, speed):
        one.add_argument("--sizes", type=int, nargs="+", default=SIZES)
        one.add_argument("--device", default="auto")
        one.add_argument("--out", type=Path, required=True, help="folder of the results")
    shown = tasks.add_parser("table", help="all results as rows")
    shown.add_argument("results", type=Path, nargs="+", help="files and folders")
    shown.add_argument("--json", type=Path, help="write the rows here, too")
    drawn = tasks.add_parser("figure", help="accuracy against what networks cost, as pictures")
    drawn.add_argument("results", type=Path, nargs="*", help="files and folders; all, by default")
    drawn.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    return whole


def chosen(given: argparse.Namespace) -> list[Rival]:
    """The rivals that a command asks for: all of one seed before those of the next."""
    sampling = SampleOptions(given.sample, given.sample)
    rivals = []
    for seed in range(given.seeds):
        for plan in given.plans:
            for network in given.given:
                for one in PLANS[plan](network, given.sizes):
                    recipe = one.recipe
                    if given.epochs and one.kind != "uncut":
                        recipe = replace(recipe, epochs=given.epochs)
                    # the given network as it is has no seed
                    own = 0 if one.kind == "uncut" else seed
                    rivals.append(replace(one, recipe=recipe, sampling=sampling, seed=own))
    return rivals


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    words = sys.argv[1:] if words is None else words
    # results name no folder of the machine that they were computed on
    told = [Path(word).name if word.startswith("/") else word for word in words]
    command = f"python -m benchmarks.rivals {' '.join(told)}"
    if given.task == "table":
        found = rows(given.results)
        if given.json:
            write_json(given.json, found)
        print(table(found))
        return 0
    if given.task == "figure":
        # what trains and measures runs where there is no rich
        from benchmarks.rivals.figure import save
        from benchmarks.rivals.frontier import compared, results

        save(compared(given.results or results()), given.out)
        return 0
    device = resolve_device("benchmarks.rivals", given.device)
    if given.task == "speed":
        name = f"{given.given}_{NETWORKS[given.given]}.safetensors"
        measure(
            given.given,
            parts=given.parts,
            weights=given.weights and given.weights / name,
            trials=trials_in(given.trials),
            sizes=given.sizes,
            device=device,
            batch=given.batch,
            steps=given.steps,
            windows={"repeats": given.repeats, "seconds": given.seconds},
            formats={
                "amp": given.amp,
                "channels_last": given.channels_last,
                "recorded": given.recorded,
            },
            command=command,
            out=given.out,
        )
        return 0
    places = files(given.weights, {"cifar10": given.cifar10, "cifar100": given.cifar100})
    end = time.time() + 60 * given.minutes
    with TemporaryDirectory() as lessons:
        shared = Path(lessons)
        call = Call(
            places, given.out, shared, str(device), given.jobs, end, command, given.recorded
        )
        left = run(chosen(given), call)
    if left:
        print(f"{left} rivals are not done. The same command goes on with them.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
