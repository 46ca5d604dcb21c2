"""Weights of a network in a safetensors file, which holds numbers and cannot run code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from vinets.core.tensors import read_file, read_header, write_file

PICKLE_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle")
NAMES_IN_MESSAGE = 3


def save_weights(
    model: nn.Module, path: str | Path, notes: Mapping[str, str] | None = None
) -> None:
    """Write the parameters and buffers of ``model`` to a safetensors file, with notes."""
    # Copies, because the format refuses tensors that share memory, as tied weights do.
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in _state(model).items()}
    write_file(path, tensors, {"format": "pt", **(notes or {})})


def load_weights(model: nn.Module, path: str | Path, *, inside: Path | None = None) -> None:
    """Fill ``model`` with the weights in a safetensors file; nothing changes on an error.

    The file has a tensor for every parameter and buffer, by the same names and of the same shapes.
    Weights that the network ties together need one name. The network keeps its device and
    its dtypes. A link that leads out of the folder ``inside`` is refused.
    """
    check_weights(model, path, inside=inside)
    # Not strict, because tied weights may lack a name; everything else was checked above.
    model.load_state_dict(read_weights(Path(path), inside=inside), strict=False)


def check_weights(model: nn.Module, path: str | Path, *, inside: Path | None = None) -> None:
    """Raise if the weights in a file are not those of ``model``, which may be a sketch of it.

    Only the header of the file is read.
    """
    refuse_pickled(Path(path))
    found, _ = read_header(path, inside=inside)
    wanted = _state(model)
    present = {_memory(wanted[name]) for name in found if name in wanted}
    missing = [n for n, t in wanted.items() if n not in found and _memory(t) not in present]
    unexpected = [name for name in found if name not in wanted]
    misshapen = [
        f"{name} {form.shape} instead of {tuple(wanted[name].shape)}"
        for name, form in found.items()
        if name in wanted and form.shape != tuple(wanted[name].shape)
    ]
    faults = {"missing": missing, "unexpected": unexpected, "of another shape": misshapen}
    said = []
    for kind, names in faults.items():
        if names:
            more = ["..."] if len(names) > NAMES_IN_MESSAGE else []
            said.append(f"{len(names)} {kind} ({', '.join(names[:NAMES_IN_MESSAGE] + more)})")
    if said:
        raise ValueError(
            f"{path} does not fit this {type(model).__name__}. Its tensors should have the names "
            f"and shapes of the network. Got {', '.join(said)} instead."
        )


def _state(model: nn.Module) -> dict[str, Tensor]:
    # The tensors themselves, because tied ones are one object, also in a sketch.
    return {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, Tensor)}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]] | int:
    # Empty tensors and those of a sketch have no memory: each counts for itself.
    pointer = 0 if tensor.is_meta else tensor.data_ptr()
    return (pointer, tuple(tensor.shape)) if pointer else id(tensor)


def read_weights(path: Path, *, inside: Path | None = None) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file by name; other files are refused."""
    refuse_pickled(path)
    return read_file(path, inside=inside)[0]


def refuse_pickled(path: Path) -> None:
    """Raise for a file whose name says that reading it could run code."""
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise ValueError(
            f"{path} must be a safetensors file, because a file that ends in {path.suffix} can run "
            "code when it is read. If you trust it, convert it once: "
            "safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)."
        )
