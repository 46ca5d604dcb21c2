"""Tables on the terminal: with Rich where it is installed, else in plain characters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from torch import Tensor

__all__ = ["as_characters", "plain_table", "print_table"]

SHADES = " .:-=+*#%@"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    marked: Collection[int] = (),
) -> None:
    """Print a table to standard output.

    Parameters
    ----------
    title : str
        A line above it.
    columns : sequence of str
        Headings, which may have several lines. The first column is set to the left.
    rows : sequence of sequence of str
        Cells, as many as there are columns.
    marked : collection of int, default=()
        Rows to print in bold.
    """
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        print(f"\n{title}\n{plain_table(columns, rows)}")
        return
    grid = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 0))
    for index, column in enumerate(columns):
        grid.add_column(
            column, justify="right" if index else "left", vertical="bottom", no_wrap=True
        )
    for index, row in enumerate(rows):
        grid.add_row(*row, style="bold" if index in marked else None)
    console = Console(highlight=False, markup=False)
    console.print(f"\n{title}", style="bold")
    wide = console.options.update(max_width=1000)
    # a table cut off says less than one that the terminal wraps
    console.width = max(console.width, console.measure(grid, options=wide).maximum)
    console.print(grid)


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain characters.

    Examples
    --------
    >>> print(plain_table(["name", "errors"], [["MLP", "7"], ["VI-Net", "12"]]))
    name    errors
    ------  ------
    MLP          7
    VI-Net      12
    """
    upwards = (name.split("\n")[::-1] for name in columns)
    heads = list(zip_longest(*upwards, fillvalue=""))[::-1]
    lines = [*heads, *(tuple(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    lines.insert(len(heads), tuple("-" * width for width in widths))
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def as_characters(image: Tensor) -> str:
    """A grey image (H, W) as lines of characters, two for every pixel; bright is dense.

    Examples
    --------
    >>> import torch
    >>> print(as_characters(torch.tensor([[9.0, 1.0], [0.0, 9.0]])))
    @@..
      @@
    """
    low, high = image.min(), image.max()
    levels = (image - low) / (high - low).clamp_min(1e-9) * (len(SHADES) - 1)
    return "\n".join("".join(2 * SHADES[v] for v in row) for row in levels.round().int().tolist())
