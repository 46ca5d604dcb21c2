"""``vinets theory``, ``ood`` and ``explain``: what is known about a network and its answers."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from vinets import pretrained
from vinets.cli import shared
from vinets.cli.parameters import DATA, OUTPUT, RUN_FILE, RUNNING, Panel, argument, read_run, takes
from vinets.core.options import flag_of, whole
from vinets.core.settings import AdviceOptions

MARGIN_BATCH = 256  # examples


@takes(without="lambda_1 lambda_2")
def theory(
    model: str = shared.UNCUT,
    *,
    cut: str | int | None = DATA.option(
        shared.CUT_HELP, None, shared.CUTS, shown="that of --vinet"
    ),
    vinet: Path | None = DATA.option("Folder of a network that vinets build made of MODEL.", None),
    data: str | None = DATA.option(
        "Takes the shape of its inputs and, with --vinet, margins: {data formats}", None
    ),
    reading: shared.ReadingOptions,
    shape: tuple[int, ...] | None = shared.SHAPE,
    examples: int = DATA.option("Training examples to draw for margins, at most.", 5000),
    components: int = Panel(AdviceOptions.panel).option(
        "Principal components, where there is no --vinet.", 128
    ),
    advising: AdviceOptions,
    out: Path | None = OUTPUT.option("Folder for theory.json and theory.html.", None),
    common: shared.CommonOptions,
) -> None:
    """Show the spectral complexity R of a network, and which heads behind a cut keep it down.

    Margin bounds on the test error grow with R. Lists R layer by layer, and the sizes of
    polynomial heads that are certified to have no larger R. With --vinet also the R of that
    network and every bound of the theorem; with --data as well, the margins of both.

    Example: vinets theory out/base --vinet out/vinet --data digits --out out/theory
    """
    from torch import Tensor

    from vinets.core.files import refuse_foreign, write_json, write_text
    from vinets.core.plain import as_plain
    from vinets.data.conversion import draw_from
    from vinets.measure import machine
    from vinets.networks.open import NamedNetwork, check_inputs, open_cut, require_weights
    from vinets.report import html, print_page
    from vinets.runs.on_data import open_uncut
    from vinets.theory import study
    from vinets.theory.page import theory_page

    device = common.start()
    if data is not None and shape is not None:
        raise ValueError("Pass --shape or --data, because --data gives the shape as well.")
    if out is not None:
        for name in ("theory.json", "theory.html", RUN_FILE):
            refuse_foreign(out / name)
    opened, example, split = open_uncut(model, data, shape, **reading.keywords())
    require_weights(opened)
    if not isinstance(example, Tensor):
        raise ValueError(f"{opened.name} takes several inputs. The theory is for one tensor.")
    if cut is None and vinet is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --vinet.")
    network = None
    if vinet is not None:
        network = open_cut(vinet, opened)
        check_inputs(NamedNetwork(str(vinet), network), example)
        network, cut = network.to(device), network.record.cut if cut is None else cut
    drawn = None if split is None else draw_from(split.train, examples, common.seed)
    with common.progress() as progress:
        progress.start(f"norms of {opened.name}", 1)
        result = study(
            opened.network.to(device),
            cut,
            example.to(device),
            network=network,
            batches=None if drawn is None else lambda: drawn.batches(MARGIN_BATCH, device=device),
            components=components,
            seed=common.seed,
            advising=advising,
        )
        progress.advance(1)
    about, command = machine(common.device), shlex.join(["vinets", *sys.argv[1:]])
    facts = as_plain({"model": model, "vinet": vinet, "data": data} | result.to_dict())
    page = theory_page(result, f"Spectral complexity of {opened.name}", command, about)
    hint = "There are figures, too: --out FOLDER writes them as a page."
    if out is not None:
        write_json(out / "theory.json", {"command": command, "machine": about} | facts)
        write_text(out / "theory.html", html(page))
        common.note(f"Written to {out}: theory.json, theory.html")
        hint = f"The figures are in {out / 'theory.html'}."
    if common.show(facts):
        print_page(page, hint)


@takes()
def ood(
    net: str = shared.NETWORK,
    *,
    data: str = shared.DATA_SET,
    reading: shared.ReadingOptions,
    ood: list[str] = DATA.option(
        "Images of none of the classes: noise, textures, or data as for --data; repeatable."
    ),
    layers: str | None = RUNNING.option(
        "Layers whose distances are taken together, such as layer2,layer3,layer4.",
        None,
        shown="five from the middle of the network to its end",
    ),
    per_class: int = RUNNING.option("Training examples of a class to fit to.", 512, whole(4)),
    count: int = RUNNING.option("Test images, and images of each set.", 2000, whole(8)),
    common: shared.CommonOptions,
) -> None:
    """Measure how well out-of-distribution images are detected, by several scores.

    Test images of the data are compared with those of every other set. AUROC is the probability
    that an image of the other set gets the larger score, in percent; FPR95 is the share of such
    images that pass a threshold which 95 % of the network's own images pass. Distances to the
    classes at several layers are compared with scores from the literature. All are fitted to
    training images; distances also use a quarter of the test images, which is not judged.

    Example: vinets ood out/base --data digits --ood noise --ood textures
    """
    from vinets.report import Column, Table
    from vinets.scores.detect import compare_scores, ood_images

    device = common.start()
    opened, split = shared.open_data(net, data, reading, common)
    preprocessing = getattr(split.test, "preprocessing", None)  # only sources of images have one
    if preprocessing is None:
        raise ValueError(f"{data} has no images, which vinets ood is for.")
    others = {spec: ood_images(spec, preprocessing, count, common.seed) for spec in ood}
    with common.progress() as progress:
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
    for spec in others:
        columns.append(Column(f"auroc of {spec}", f"{spec}: AUROC", ".1f", better="higher"))
        columns.append(Column(f"fpr of {spec}", "FPR95", ".1f", better="lower"))
    rows: dict[str, list[str | float]] = {}
    for one in sorted(scores, key=lambda one: list(others).index(one.data)):
        row = rows.setdefault(one.score, [one.score])
        row += [100 * one.auroc, 100 * one.fpr95]
    caption = f"{opened.name}: {split.name} against other images"
    table = Table.from_rows("ood", caption, columns, rows.values())
    common.show({"network": net, "data": data, "scores": scores}, table)


@takes(without="weights classes model_option")
def explain(
    net: str = argument("A folder of vinets build or vinets compress."),
    image: Path | None = argument(
        "An image.", None, shown="the picture that comes with the network, where one does"
    ),
    *,
    data: str | None = DATA.option(
        "What the network was trained on: {data formats}.",
        None,
        shown=f"that of the {RUN_FILE} in the folder, or of the card",
    ),
    reading: shared.ReadingOptions,
    against: str | None = OUTPUT.option(
        "Class to compare with.", None, shown="the likeliest other one"
    ),
    top: int = OUTPUT.option("Polynomials to name.", 8),
    neighbours: int = OUTPUT.option("Training examples to show.", 8),
    per_class: int = DATA.option("Training examples of a class to compare with, at most.", 100),
    batch_size: int = RUNNING.option("Examples at once.", 64),
    out: Path | None = OUTPUT.option("The page, such as why.html.", None),
    common: shared.CommonOptions,
) -> None:
    """Tell why a network gave its answer: polynomials that decided, where, nearest examples.

    The margin between the answer and the next class is taken apart into what every polynomial adds
    to it, and every position of the map. Each polynomial is shown beside its values on training
    examples.

    Example: vinets explain out/small digit.png --out why.html
    """
    from vinets.core.files import refuse_foreign, write_text
    from vinets.data.formats import UnknownData
    from vinets.explanations.explain import explain as find_reasons
    from vinets.explanations.page import explain_page
    from vinets.networks import CutNetwork
    from vinets.report import html, print_page
    from vinets.runs.on_data import open_with_data

    device = common.start()
    if image is None and pretrained.is_name(net):
        image = pretrained.example(net)
    if image is None:
        raise ValueError(f"Pass an image: {net} comes without a picture.")
    if out is not None and out.is_dir():
        raise ValueError(f"{out} is a folder. Pass the name of a file with --out.")
    if out is not None:
        refuse_foreign(out)
    spec, read = (data, reading) if data is not None else _recorded(net, reading)
    try:
        opened, split = open_with_data(net, spec, **read.keywords())
    except UnknownData:
        if data is not None:
            raise
        raise ValueError(
            f"{net} was built on --data {spec}, which is not found from here. Pass --data with the "
            "place where it is now."
        ) from None
    network = opened.network
    if not isinstance(network, CutNetwork):
        raise ValueError(f"{net} is not cut. Pass a folder of vinets build or vinets compress.")
    with common.progress() as progress:
        explanation = find_reasons(
            network.to(device),
            image,
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
    hint = "There are maps and pictures, too: --out FILE.html writes them as a page."
    if out is not None:
        write_text(out, html(page))
        common.note(f"Written to {out}")
        hint = f"The pictures are in {out}."
    if common.show({"network": net, "image": image, "explanation": explanation}):
        print_page(page, hint)


def _recorded(net: str, reading: shared.ReadingOptions) -> tuple[str, shared.ReadingOptions]:
    """Return the data that the folder of a network records, and how it was read."""
    if pretrained.is_name(net):
        return pretrained.facts(net)["data"], reading
    path = Path(net.partition("@")[0]).expanduser() / RUN_FILE
    recorded = read_run(path) if path.is_file() else {}
    if not isinstance(recorded.get("data"), str):
        raise ValueError(f"{net} does not say what it was built on. Pass --data.")
    values: dict[str, Any] = {}
    for one in fields(reading):
        value, read = recorded.get(flag_of(one)[2:]), one.metadata["domain"].read
        if value is not None and one.name not in ("weights", "model_option"):
            values[one.name] = read(str(value)) if read is not None else value
    return recorded["data"], replace(reading, **values)
