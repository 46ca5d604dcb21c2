"""``vinets theory``: spectral complexity of a network, and which heads keep it down."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import CUT, DATA, OUTPUT, Common, Reading, Shape, cut_of, integers, option
from vinets.cli.output import note, print_json, seeded, watching
from vinets.core.settings import AdviceOptions

if TYPE_CHECKING:
    from torch import Tensor

    from vinets.data import DataSplit
    from vinets.networks import CutNetwork
    from vinets.networks.open import NamedNetwork


BATCH = 256
PICTURES = "There are figures, too: --out FOLDER writes them as a page."


@dataclass(frozen=True)
class MarginReading(Reading):
    """Data is not needed here: it gives margins, and the shape as well."""

    data: Annotated[
        str | None,
        option(DATA, "Takes the shape of its inputs and, with --vinet, margins: {data formats}"),
    ] = None  # type: ignore[assignment]
    shape: Shape = None
    examples: Annotated[
        int, option(DATA, "Training examples to draw for margins, at most.", min=1)
    ] = 5000


@takes(("lambda_1", "lambda_2"), reading=MarginReading, advising=AdviceOptions, common=Common)
def theory(
    *,
    model: Annotated[
        str,
        typer.Argument(help="A folder of vinets train, or a network with --weights: {networks}."),
    ],
    cut: Annotated[str | None, option(DATA, CUT, show_default="that of --vinet")] = None,
    vinet: Annotated[
        Path | None, option(DATA, "Folder of a network that vinets build made of MODEL there.")
    ] = None,
    reading: MarginReading,
    components: Annotated[
        int, option(AdviceOptions.panel, "Principal components, where there is no --vinet.", min=1)
    ] = 128,
    advising: AdviceOptions,
    out: Annotated[Path | None, option(OUTPUT, "Folder for theory.json and theory.html.")] = None,
    common: Common,
) -> None:
    """Show the spectral complexity R of a network, and which heads behind a cut keep it down.

    Margin bounds on the test error grow with R. Lists R layer by layer, and the sizes of
    polynomial heads that are certified to have no larger R. With --vinet also the R of that
    network and every bound of the theorem; with --data as well, the margins of both.

    Example: vinets theory out/base --vinet out/vinet --data digits --out out/theory
    """
    from vinets.core.device import resolve_device
    from vinets.core.files import write_json, write_text
    from vinets.core.plain import as_plain
    from vinets.data.sources import draw_from
    from vinets.measure import machine
    from vinets.report import html, print_page
    from vinets.theory import study
    from vinets.theory.page import theory_page

    seeded(common.seed)
    on = resolve_device("vinets", common.device)
    opened, example, split = _open(model, reading)
    if cut is None and vinet is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --vinet.")
    network = None if vinet is None else _open_vinet(vinet, opened, example)
    where = cut_of(cut) if cut is not None else network.record.cut if network is not None else ""
    drawn = None if split is None else draw_from(split.train, reading.examples, common.seed)
    with watching(common.quiet) as progress:
        progress.start(f"norms of {opened.name}", 1)
        found = study(
            opened.network.to(on),
            where,
            example.to(on),
            network=None if network is None else network.to(on),
            batches=None if drawn is None else lambda: drawn.batches(BATCH, device=on),
            components=components,
            seed=common.seed,
            advising=advising,
        )
        progress.advance(1)
    about, command = machine(common.device), shlex.join(["vinets", *sys.argv[1:]])
    named = {"model": model, "vinet": None if vinet is None else str(vinet), "data": reading.data}
    facts = as_plain(named | found.to_dict())
    page = theory_page(found, f"Spectral complexity of {opened.name}", command, about)
    if out is not None:
        write_json(out / "theory.json", {"command": command, "machine": about} | facts)
        write_text(out / "theory.html", html(page))
        note(f"Written to {out}: theory.json, theory.html", common.quiet)
    if common.json:
        print_json(facts)
        return
    print_page(page, PICTURES if out is None else f"The figures are in {out / 'theory.html'}.")


def _open_vinet(folder: Path, uncut: NamedNetwork, example: Tensor) -> CutNetwork:
    """The network that is studied beside the uncut one, which takes the same inputs."""
    from vinets.networks.open import NamedNetwork, check_inputs, open_cut

    network = open_cut(folder, made_of=uncut)
    check_inputs(NamedNetwork(str(folder), network), example)
    return network


def _open(model: str, reading: MarginReading) -> tuple[NamedNetwork, Tensor, DataSplit | None]:
    """The uncut network, an input and, where it is given, the data."""
    from torch import Tensor

    from vinets.networks.open import require_weights
    from vinets.runs.open import open_uncut

    if reading.data is not None and reading.shape is not None:
        raise ValueError("Pass --shape or --data, for --data gives the shape as well.")
    reads = reading.keywords() | {"shape": integers("--shape", reading.shape)}
    del reads["examples"]  # of the draw for margins, not of opening
    opened, example, split = open_uncut(model, **reads)
    require_weights(opened)
    if not isinstance(example, Tensor):
        raise ValueError(f"{opened.name} takes several inputs. The theory is for one tensor.")
    return opened, example, split
