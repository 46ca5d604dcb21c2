"""``vinets theory``, ``ood`` and ``explain``: what is known about a network and its answers."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from vinets.cli.parameters import RUN_FILE, parameter, read_run, takes
from vinets.cli.shared import (
    CUT,
    CUT_HELP,
    DATA,
    OUTPUT,
    RUNNING,
    SIZES,
    CommonOptions,
    DataOptions,
    NetworkName,
    UncutName,
    note,
    open_data,
    seed_and_device,
    show,
    watching,
)
from vinets.core.options import option, optional, text, whole
from vinets.core.settings import AdviceOptions

MARGIN_BATCH = 256  # examples
FIGURES_HINT = "There are figures, too: --out FOLDER writes them as a page."
MAPS_HINT = "There are maps and pictures, too: --out FILE.html writes them as a page."


@dataclass(frozen=True)
class MarginOptions(DataOptions):
    """Data is not needed here: it gives margins, and the shape as well."""

    data: str | None = option(  # type: ignore[assignment]
        None,
        optional(text()),
        "Takes the shape of its inputs and, with --vinet, margins: {data formats}",
        shown=None,
    )
    shape: tuple[int, ...] | None = option(
        None,
        optional(SIZES),
        "Shape of one input, such as 3,32,32.",
        shown="what the network was made for",
    )
    examples: int = option(5000, whole(), "Training examples to draw for margins, at most.")


@takes("lambda_1", "lambda_2")
def theory(
    model: UncutName,
    /,
    *,
    cut: Annotated[
        str | int | None, parameter(DATA, CUT_HELP, CUT, shown="that of --vinet")
    ] = None,
    vinet: Annotated[
        Path | None, parameter(DATA, "Folder of a network that vinets build made of MODEL there.")
    ] = None,
    data_options: MarginOptions,
    components: Annotated[
        int,
        parameter(AdviceOptions.panel, "Principal components, where there is no --vinet.", whole()),
    ] = 128,
    advising: AdviceOptions,
    out: Annotated[
        Path | None, parameter(OUTPUT, "Folder for theory.json and theory.html.")
    ] = None,
    common: CommonOptions,
) -> None:
    """Show the spectral complexity R of a network, and which heads behind a cut keep it down.

    Margin bounds on the test error grow with R. Lists R layer by layer, and the sizes of
    polynomial heads that are certified to have no larger R. With --vinet also the R of that
    network and every bound of the theorem; with --data as well, the margins of both.

    Example: vinets theory out/base --vinet out/vinet --data digits --out out/theory
    """
    from torch import Tensor

    from vinets.core.files import write_json, write_text
    from vinets.core.plain import as_plain
    from vinets.data.sources import draw_from
    from vinets.measure import machine
    from vinets.networks.open import NamedNetwork, check_inputs, open_cut, require_weights
    from vinets.report import html, print_page
    from vinets.runs.open import open_uncut
    from vinets.theory import study
    from vinets.theory.page import theory_page

    device = seed_and_device(common)
    if data_options.data is not None and data_options.shape is not None:
        raise ValueError("Pass --shape or --data, because --data gives the shape as well.")
    keywords = data_options.keywords()
    del keywords["examples"]  # they are for the margins, and not for opening
    opened, example, split = open_uncut(model, **keywords)
    require_weights(opened)
    if not isinstance(example, Tensor):
        raise ValueError(f"{opened.name} takes several inputs. The theory is for one tensor.")
    if cut is None and vinet is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --vinet.")
    network = None
    if vinet is not None:
        network = open_cut(vinet, made_of=opened)
        check_inputs(NamedNetwork(str(vinet), network), example)
    where = cut if cut is not None else network.record.cut if network is not None else ""
    drawn = None if split is None else draw_from(split.train, data_options.examples, common.seed)
    with watching(common.quiet) as progress:
        progress.start(f"norms of {opened.name}", 1)
        result = study(
            opened.network.to(device),
            where,
            example.to(device),
            network=None if network is None else network.to(device),
            batches=None if drawn is None else lambda: drawn.batches(MARGIN_BATCH, device=device),
            components=components,
            seed=common.seed,
            advising=advising,
        )
        progress.advance(1)
    about, command = machine(common.device), shlex.join(["vinets", *sys.argv[1:]])
    named = {
        "model": model,
        "vinet": None if vinet is None else str(vinet),
        "data": data_options.data,
    }
    facts = as_plain(named | result.to_dict())
    page = theory_page(result, f"Spectral complexity of {opened.name}", command, about)
    if out is not None:
        write_json(out / "theory.json", {"command": command, "machine": about} | facts)
        write_text(out / "theory.html", html(page))
        note(f"Written to {out}: theory.json, theory.html", common.quiet)
    if show(common, facts):
        hint = FIGURES_HINT if out is None else f"The figures are in {out / 'theory.html'}."
        print_page(page, hint)


@takes()
def ood(
    net: NetworkName,
    /,
    *,
    data_options: DataOptions,
    ood: Annotated[
        list[str],
        parameter(
            DATA,
            "Images of none of the classes: noise, textures, or data as for --data; repeatable.",
        ),
    ],
    layers: Annotated[
        str | None,
        parameter(
            RUNNING,
            "Layers whose distances are taken together, such as layer2,layer3,layer4.",
            shown="five from the middle of the network to its end",
        ),
    ] = None,
    per_class: Annotated[
        int, parameter(RUNNING, "Training examples of a class to fit scores to.", whole(4))
    ] = 512,
    count: Annotated[
        int, parameter(RUNNING, "Test images, and images of each set.", whole(8))
    ] = 2000,
    common: CommonOptions,
) -> None:
    """Measure how well out-of-distribution images are detected, by several scores.

    Test images of the data are compared with those of every other set. AUROC is the probability
    that an image of the other set gets the larger score, in percent; FPR95 is the share of such
    images that pass a threshold which 95 % of the network's own images pass. Distances to the
    classes at several layers are compared with scores from the literature. All are fitted to
    training images; distances also use a quarter of the test images, which is not judged.

    Example: vinets ood out/base --data digits --ood noise --ood textures
    """
    from vinets.report import Column, Row, Table
    from vinets.scores.detect import compare_scores, ood_images

    device = seed_and_device(common)
    opened, split = open_data(net, data_options, common)
    preprocessing = getattr(split.test, "preprocessing", None)  # only sources of images have one
    if preprocessing is None:
        raise ValueError(f"{data_options.data} has no images, which vinets ood is for.")
    others = {spec: ood_images(spec, preprocessing, count, common.seed) for spec in ood}
    with watching(common.quiet) as progress:
        scores = compare_scores(
            opened.network.to(device),
            split,
            others,
            layers=None if layers is None else layers.split(","),
            per_class=per_class,
            count=count,
            seed=common.seed,
            progress=progress,
        )
    columns = [Column("score")]
    for k, spec in enumerate(others):
        columns.append(Column(f"auroc_{k}", f"{spec}: AUROC", ".1f", better="higher"))
        columns.append(Column(f"fpr_{k}", "FPR95", ".1f", better="lower"))
    rows = []
    for name in dict.fromkeys(one.score for one in scores):
        values: dict[str, str | float] = {"score": name}
        for k, spec in enumerate(others):
            one = next(f for f in scores if (f.score, f.data) == (name, spec))
            values |= {f"auroc_{k}": 100 * one.auroc, f"fpr_{k}": 100 * one.fpr95}
        rows.append(Row(values))
    caption = f"{opened.name}: {split.name} against other images"
    table = Table("ood", caption, tuple(columns), tuple(rows))
    show(common, {"network": net, "data": data_options.data, "scores": scores}, table)


@dataclass(frozen=True)
class ExplainedDataOptions(DataOptions):
    """Data need not be named where the folder tells what its network was built on."""

    data: str | None = option(  # type: ignore[assignment]
        None,
        optional(text()),
        "What the network was trained on: {data formats}.",
        shown=f"that of the {RUN_FILE} in the folder",
    )


@takes("weights")
def explain(
    net: Annotated[str, parameter(None, "A folder of vinets build or vinets compress.")],
    image: Annotated[Path, parameter(None, "An image.")],
    /,
    *,
    data_options: ExplainedDataOptions,
    against: Annotated[
        str | None,
        parameter(OUTPUT, "Class to compare with.", shown="the likeliest other one"),
    ] = None,
    top: Annotated[int, parameter(OUTPUT, "Polynomials to name.", whole())] = 8,
    neighbours: Annotated[int, parameter(OUTPUT, "Training examples to show.", whole())] = 8,
    per_class: Annotated[
        int,
        parameter(DATA, "Training examples of every class to compare with, at most.", whole()),
    ] = 100,
    batch_size: Annotated[int, parameter(RUNNING, "Examples at once.", whole())] = 64,
    out: Annotated[Path | None, parameter(OUTPUT, "The page, such as why.html.")] = None,
    common: CommonOptions,
) -> None:
    """Tell why a network gave its answer: polynomials that decided, where, nearest examples.

    The margin between the answer and the next class is taken apart into what every polynomial adds
    to it, and every position of the map. Each polynomial is shown beside its values on training
    examples.

    Example: vinets explain out/small digit.png --out why.html
    """
    from vinets.core.files import write_text
    from vinets.data.formats import UnknownData
    from vinets.explanations.explain import explain as find_reasons
    from vinets.explanations.page import explain_page
    from vinets.explanations.positions import preprocessing_of
    from vinets.networks import CutNetwork
    from vinets.report import html, print_page
    from vinets.runs.open import open_with_data

    device = seed_and_device(common)
    if out is not None and out.is_dir():
        raise ValueError(f"{out} is a folder. Pass the name of a file with --out.")
    known = data_options if data_options.data is not None else _recorded(net, data_options)
    try:
        opened, split = open_with_data(net, **known.keywords())
    except UnknownData:
        if data_options.data is not None:
            raise
        raise ValueError(
            f"{net} was built on --data {known.data}, which is not found from here. Pass --data "
            "with the place where it is now."
        ) from None
    network = opened.network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{net} is not cut. Pass a folder of vinets build or vinets compress.")
    pixels = preprocessing_of(network).read(image)
    with watching(common.quiet) as progress:
        explanation = find_reasons(
            network.to(device),
            pixels,
            split,
            against=against,
            top=top,
            neighbours=neighbours,
            per_class=per_class,
            batch_size=batch_size,
            seed=common.seed,
            progress=progress,
        )
    command = shlex.join(["vinets", *sys.argv[1:]])
    page = explain_page(explanation, f"Why {opened.name} says {explanation.answer}", command)
    if out is not None:
        write_text(out, html(page))
        note(f"Written to {out}", common.quiet)
    if show(common, {"network": net, "image": str(image), "explanation": explanation}):
        print_page(page, MAPS_HINT if out is None else f"The pictures are in {out}.")


def _recorded(net: str, data_options: ExplainedDataOptions) -> ExplainedDataOptions:
    """Return the data of the folder's own record."""
    path = Path(net.partition("@")[0]).expanduser() / RUN_FILE
    recorded = read_run(path) if path.is_file() else {}
    if not isinstance(recorded.get("data"), str):
        raise ValueError(f"{net} does not say what it was built on. Pass --data.")
    values: dict[str, object] = {}
    for flag, kind in (("data", str), ("size", int), ("split-seed", int)):
        if isinstance(recorded.get(flag), kind):
            values[flag.replace("-", "_")] = recorded[flag]
    for flag in ("mean", "std"):
        if isinstance(recorded.get(flag), str):
            values[flag] = tuple(float(part) for part in recorded[flag].split(","))
    return replace(data_options, **values)  # type: ignore[arg-type]
