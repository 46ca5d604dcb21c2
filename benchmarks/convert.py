"""Rewrite results of version 0.2: trials as 0.3 names them, one line each in ``trials.jsonl``.

    python -m benchmarks.convert STORE ...

A store of 0.2 has a folder ``trials`` with a file for each result. Its trials become those that 0.3
would carry out for the same thing, their results stay as they are, and the folder goes. Two trials
that 0.3 does not tell apart must have the same result.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vinets.core.files import read_json, write_json, write_text
from vinets.core.settings import LatentOptions, SampleOptions, SpeedOptions, TrainingOptions
from vinets.heads import HeadOptions, LocalOptions, ProductsOptions, VanishingOptions
from vinets.networks.build import rival_options
from vinets.runs.store import FILE, TRIALS
from vinets.runs.trial import Trial

Values = Mapping[str, Any]


def convert_trial(old: Values) -> Trial:
    """Return the trial of 0.3 for what version 0.2 wrote down of one: its changes from defaults."""
    placing, recipe = old.get("placing", {}), dict(old.get("recipe", {}))
    placement = placing.get("placement", "global")
    options: HeadOptions
    if placement == "products":
        kind, options = "products", _products(old)
    elif placement == "local":
        kind, options = "local", LocalOptions(**_generators(old, None), **_sizes(old, None, "auto"))
    else:
        size = _sizes(old, 512, 128)
        own = _pick(old.get("projecting", {}), {"order": "tanh-pca", "scale": "unit"})
        options = VanishingOptions(**_generators(old, 128), **size, **own)
        kind = "vanishing"
    head = old.get("head", "vi")
    if old.get("task") == "speed":
        kind, options = Trial.head, VanishingOptions()  # it compares networks that are saved
    elif recipe.get("epochs") == 0:
        kind, options = "closed", HeadOptions()
        recipe.pop("epochs")
    elif head != "vi":
        options = _baseline(head, kind, options, old)
        kind = head
    tune = old.get("tuning", {}).get("tune", "head")
    trained = old.get("vanishing", {}).get("trained", "coefficients")
    if tune != "head":
        trained = "backbone" if tune == "all" else tune
    usual = 2e-3 if placement == "local" else 5e-4
    decay = recipe.pop("weight_decay", None)
    tuning = {name: value for name, value in old.get("tuning", {}).items() if name != "tune"}
    groups = ("finding", "collecting", "placing", "projecting", "pruning", "recipe", "tuning")
    groups += ("vanishing", "shaping", "caching", "sampling", "timing", "head", "baseline_degree")
    rest = {name: value for name, value in old.items() if name not in groups}
    rest["compared"] = tuple((name, folder) for name, folder in rest.get("compared", ()))
    return Trial(
        head=kind,
        options=options,
        latents=LatentOptions(**old.get("collecting", {})),
        recipe=TrainingOptions(
            **recipe,
            **tuning,
            **old.get("caching", {}),
            weight_decay=usual if decay is None else decay,
            trained=trained,
        ),
        sampling=SampleOptions(**old.get("sampling", {})),
        timing=SpeedOptions(**old.get("timing", {})),
        **rest,
    )


def _pick(values: Values, usual: Values) -> dict[str, Any]:
    return {name: values.get(name, default) for name, default in usual.items()}


def _generators(old: Values, components: int | None) -> dict[str, Any]:
    """Options of ideals and variables; those that 0.2 left open are those that it then took."""
    finding = dict(old.get("finding", {}))
    algorithm = finding.pop("algorithm", "abm")
    degree = finding.pop("max_degree", "auto")
    local = components is None
    if degree == "auto" and not local:
        degree = 5
    if algorithm == "abm" and not local:
        finding.setdefault("normalization", "unit")
    finding.setdefault("normalization", None)
    wanted = old.get("projecting", {}).get("components", "auto")
    usual = {"pca": "auto", "train_projection": False}
    return {
        **finding,
        **_pick(old.get("projecting", {}), usual),
        "algorithm": algorithm,
        "max_degree": degree,
        "components": components if wanted == "auto" else wanted,
        "linear_path": old.get("placing", {}).get("linear_path", 0),
    }


def _sizes(old: Values, monomials: int | None, keep: Any) -> dict[str, Any]:
    found = _pick(
        old.get("pruning", {}),
        {"keep": "auto", "monomials": "auto", "score": "separation", "sparse": False},
    )
    found["keep"] = keep if found["keep"] == "auto" else found["keep"]
    found["monomials"] = monomials if found["monomials"] == "auto" else found["monomials"]
    return found


def _products(old: Values) -> ProductsOptions:
    shaping = dict(old.get("shaping", {}))
    size = shaping.pop("head_parameters", None)
    if shaping.get("start", "random") == "random":
        return ProductsOptions(parameters=size, **shaping)
    components = old.get("projecting", {}).get("components", "auto")
    psi = old.get("finding", {}).get("psi", 0.1)
    wanted = 32 if components == "auto" else components
    return ProductsOptions(parameters=size, psi=psi, components=wanted, **shaping)


def _baseline(head: str, kind: str, like: HeadOptions, old: Values) -> HeadOptions:
    """Options of a head that 0.2 made next to another one."""
    made = rival_options(head, kind, like)
    fields = vars(made)
    if "parameters" in fields:
        shaping = old.get("shaping", {})
        size = shaping.get("head_parameters")
        more = {"spatial_rank": shaping.get("spatial_rank", 16)} if "spatial_rank" in fields else {}
        # A given size is all that such a head takes from the one that it is compared with.
        usual = {} if size is None else {"like": type(made)().like}  # type: ignore[attr-defined]
        return type(made)(**(fields | {"parameters": size} | more | usual))
    if "degree" in fields:
        return type(made)(**(fields | {"degree": old.get("baseline_degree", 5)}))
    return made


def _results(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield what a store of 0.2 holds: files, or lines without names."""
    for path in sorted((folder / "trials").glob("*.json")):
        yield path, read_json(path)
    path = folder / TRIALS
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        values = json.loads(line)
        if "name" not in values:
            yield path, values


def convert_store(folder: Path) -> int:
    """Rewrite a store in place; return how many results it holds."""
    lines: dict[str, dict[str, Any]] = {}
    for path, values in _results(folder):
        trial = convert_trial(values["trial"])
        line = {"name": trial.name, **values, "trial": trial.changes}
        known = lines.setdefault(trial.name, line)
        if known["result"] != line["result"]:
            raise ValueError(f"{path} has another result than a trial that 0.3 takes for the same.")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines.values())
    write_text(folder / TRIALS, text)
    shutil.rmtree(folder / "trials", ignore_errors=True)
    if not (folder / FILE).is_file():
        return len(lines)
    contents = read_json(folder / FILE)
    contents["saved"] = {
        place: convert_trial(changes).changes for place, changes in contents["saved"].items()
    }
    write_json(folder / FILE, contents)
    return len(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    for folder in parser.parse_args(words).stores:
        print(f"{folder}: {convert_store(folder)} results")
    return 0


if __name__ == "__main__":
    sys.exit(main())
