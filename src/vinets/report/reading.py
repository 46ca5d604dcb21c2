"""Reads results of experiments, and says of a broken file which key is wrong."""

from __future__ import annotations

from pathlib import Path

from vinets.files import read_json
from vinets.plain import from_plain
from vinets.report.values import ExperimentResult

__all__ = ["read_results"]

KINDS = {"title", "tables", "figures"}  # one of them tells a result from other JSON


def read_results(folder: str | Path) -> list[ExperimentResult]:
    """Results of a folder, a JSON file each, in their order.

    Other files, JSON that is no experiment and folders inside it are passed over. An error names
    the file that is broken, and the key.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the one into which vinets reproduce wrote."
        )
    found: dict[str, tuple[Path, ExperimentResult]] = {}
    for path in sorted(folder.glob("*.json")):
        values = read_json(path) if path.is_file() else None
        if not (isinstance(values, dict) and "experiment" in values and KINDS & values.keys()):
            continue
        result = from_plain(ExperimentResult, values, path.name)
        known, _ = found.setdefault(result.experiment, (path, result))
        if known is not path:
            raise ValueError(
                f"{known.name} and {path.name} are both results of {result.experiment!r}. Keep one."
            )
    if not found:
        raise ValueError(
            f"{folder} holds no results of experiments. Write some with vinets reproduce."
        )
    return sorted((one for _, one in found.values()), key=lambda one: (one.order, one.experiment))
