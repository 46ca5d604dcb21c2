"""Weights of a network in a file, whose tensors go by the names that the network has for them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from torch import Tensor, nn

from vinets.core.tensors import Form, read_file, read_header, write_file
from vinets.models.torch_files import SUFFIXES, read_torch_file

PREFIXES = ("module.", "_orig_mod.", "model.")  # DataParallel, torch.compile, Lightning
COUNTS_OF_THOP = ("total_ops", "total_params")  # buffers that measuring with it leaves behind
MAX_COMPARED = 1000  # names, which takes milliseconds
NAMES_IN_MESSAGE = 3


def save_weights(
    model: nn.Module, path: str | Path, notes: Mapping[str, str] | None = None
) -> None:
    """Write the parameters and buffers of ``model`` to a safetensors file, with notes."""
    # Copies, because the format refuses tensors that share memory, as tied weights do.
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in _state(model).items()}
    write_file(path, tensors, {"format": "pt", **(notes or {})})


def load_weights(
    model: nn.Module, path: str | Path, *, inside: Path | None = None
) -> Mapping[str, str]:
    """Fill ``model`` with the weights in a file, and return its notes; an error changes nothing.

    The file is of safetensors or of ``torch.save``: a state dict, alone or as an entry such as
    ``state_dict``. It has a tensor of the same shape for every parameter and buffer, by its name or
    with a prefix of wrappers (``module.``, ``_orig_mod.``, ``model.``). Counts of batches may be
    missing, and weights that the network ties together need one name. The network keeps its device
    and its dtypes. A link that leads out of the folder ``inside``, or a pickle there, is refused.
    """
    pickled = inside is None and Path(path).suffix.lower() in SUFFIXES
    tensors, notes = (read_torch_file(path), {}) if pickled else read_file(path, inside=inside)
    names = _fit(model, tensors, path)
    # Not strict, because tied weights may lack a name; everything else was checked above.
    model.load_state_dict({own: tensors[name] for own, name in names.items()}, strict=False)
    return notes


def check_weights(model: nn.Module, path: str | Path, *, inside: Path | None = None) -> None:
    """Raise unless a safetensors file, by its header, has weights of ``model`` or of its sketch."""
    _fit(model, read_header(path, inside=inside).forms, path)


def _fit(model: nn.Module, stored: Mapping[str, Form | Tensor], path: str | Path) -> dict[str, str]:
    """Return names in a file by those of a network; raise one sentence for what does not fit."""
    wanted = _state(model)
    names = {name: name for name in stored if name in wanted}
    for name in stored:  # perhaps behind what wrappers put before names
        bare = name
        while bare not in wanted and bare.startswith(PREFIXES):
            bare = bare.partition(".")[2]
        if bare not in wanted:  # a part of the network was wrapped
            bare = ".".join(part for part in bare.split(".") if f"{part}." not in PREFIXES[:2])
        if bare in wanted:
            names.setdefault(bare, name)
    present, used = {_memory(wanted[name]) for name in names}, {*names.values()}
    missing = [n for n, t in wanted.items() if n not in names and _memory(t) not in present]
    # PyTorch counts batches since 0.4.1, and needs no count.
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    unexpected = [name for name in stored if name not in used and not name.endswith(COUNTS_OF_THOP)]
    pairs = ((n, stored[names[n]].shape, t.shape) for n, t in wanted.items() if n in names)
    misshapen = {n: (tuple(a), tuple(b)) for n, a, b in pairs if a != b}
    faults = {
        "missing": missing,
        "unexpected": unexpected,
        "of another shape": [f"{n} {a} instead of {b}" for n, (a, b) in misshapen.items()],
    }
    said, hint = [], ""
    for kind, each in faults.items():
        if each:
            more = ["..."] if len(each) > NAMES_IN_MESSAGE else []
            said.append(f"{len(each)} {kind} ({', '.join(each[:NAMES_IN_MESSAGE] + more)})")
    for name in missing[:1]:
        like = [n for n in unexpected if stored[n].shape == wanted[name].shape][:MAX_COMPARED]
        for near in get_close_matches(name, like, n=1, cutoff=0):
            hint = f" The file has {near} of the shape of {name}."
    # A head for other classes, which comes last, differs in the number of rows alone.
    rows = {(*a[:1], *b[:1], a[1:] == b[1:]) for a, b in misshapen.values()}
    match [*misshapen][-1:] == [*wanted][-1:], *rows:
        case True, (theirs, own, True):
            hint = (
                f" Its head is for {theirs:,} classes, and that of the network for {own:,}: pass "
                f"data with {theirs:,} classes, name all of them by --classes FILE, or, without "
                f"data, pass --model-option num_classes={theirs} (in Python, num_classes={theirs})."
            )
    if said:
        raise ValueError(
            f"{path} does not fit this {type(model).__name__}. Its tensors should have the names "
            f"and shapes of the network. Got {', '.join(said)} instead.{hint}"
        )
    return names


def _state(model: nn.Module) -> dict[str, Tensor]:
    # The tensors themselves, because tied ones are one object, also in a sketch.
    return {k: v for k, v in model.state_dict(keep_vars=True).items() if isinstance(v, Tensor)}


def _memory(tensor: Tensor) -> tuple[int, tuple[int, ...]] | int:
    # Empty tensors and those of a sketch have no memory: each counts for itself.
    pointer = 0 if tensor.is_meta else tensor.data_ptr()
    return (pointer, tuple(tensor.shape)) if pointer else id(tensor)
