"""``vinets cascade``: let easy images leave at the cut."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import OUTPUT, RUNNING, Common, Reading, opened_again, option
from vinets.cli.output import note, note_normalisation, print_json, seeded, watching

if TYPE_CHECKING:
    from vinets.pipeline.cascading import CascadeResult
    from vinets.report import Table


@takes(reading=Reading, common=Common)
def cascade(
    *,
    net: Annotated[str, typer.Argument(help="A folder of vinets build.")],
    uncut: Annotated[
        str,
        typer.Argument(
            help="The network that it was made from: a folder of vinets train, or a name with "
            "--weights: {networks}."
        ),
    ],
    reading: Reading,
    out: Annotated[Path, option(OUTPUT, "Folder for the cascade.")],
    gate: Annotated[
        str,
        option(
            RUNNING,
            "How sure the VI-Net is: softmax, entropy, or distance to the classes.",
        ),
    ] = "softmax",
    loss: Annotated[
        float, option(RUNNING, "Points of accuracy that may be lost.", min=0, max=100)
    ] = 0.0,
    timed: Annotated[int, option(RUNNING, "Images to time, one at a time.", min=1)] = 200,
    common: Common,
) -> None:
    """Join a VI-Net and its uncut network: images of which the VI-Net is sure leave at the cut.

    The threshold is chosen on one half of the test part, the lowest that keeps to --loss there;
    accuracy, the share that leaves early, and the mean time of an image are those of the other
    half. The folder can be given to vinets evaluate, predict and export.

    Example: vinets cascade out/vinet out/base --data digits --out out/cascade
    """
    from vinets.checks import one_of
    from vinets.nn.cascade import GATES
    from vinets.pipeline.cascading import make_cascade
    from vinets.pipeline.opening import open_cut, open_uncut, require_weights
    from vinets.report import print_table
    from vinets.running import resolve_device

    seeded(common.seed)
    one_of("vinets", "gate", gate, sorted(GATES))
    there = resolve_device("vinets", common.device)
    opened, _, split = open_uncut(uncut, **reading.keywords())
    require_weights(opened)
    assert split is not None  # --data is required
    note_normalisation(opened, split, common.quiet)
    early = open_cut(net, opened)
    with watching(common.quiet) as progress:
        made, found = make_cascade(
            early.to(there),
            opened.network.to(there),
            split,
            gate=gate,
            loss=loss / 100,
            timed=timed,
            seed=common.seed,
            progress=progress,
        )
    made.save_pretrained(out)
    if common.json:
        print_json(found)
        return
    print_table(_table(found))
    again = shlex.quote(opened_again(out, uncut))
    note(f"Saved in {out}. Next: vinets export {again} --out cascade.onnx", common.quiet)


def _table(found: CascadeResult) -> Table:
    from vinets.report import Column, Row, Table

    uncut = found.networks[0].milliseconds
    columns = (
        Column("name", "network"),
        Column("accuracy", "accuracy", ".2%"),
        Column("early", "leave early", ".1%"),
        Column("milliseconds", "ms per image", ".3g"),
        Column("ratio", "of uncut", ".0%"),
    )
    rows = tuple(
        Row(vars(one) | {"ratio": one.milliseconds / uncut}, marked=one.name == "cascade")
        for one in found.networks
    )
    threshold = f"{found.gate} at least {found.calibration.threshold:.4g}"
    caption = f"Early exit, {threshold}, on {found.examples:,} test images"
    return Table("cascade", caption, columns, rows)
