"""On what a measurement was made."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vinets.running import resolve_device

__all__ = ["machine"]


def machine(device: str | torch.device = "auto") -> dict[str, Any]:
    """Versions and hardware that a reader needs to judge a number, JSON-able.

    Nothing in it names the host, a user or a path. ``cores`` is how many this process may use,
    ``torch_threads`` the threads inside one operation; ``gpu`` and ``cuda`` are None on the CPU.

    Examples
    --------
    >>> facts = machine("cpu")
    >>> facts["device"], facts["gpu"]
    ('cpu', None)
    """
    device = resolve_device("machine", device)
    on_cuda = device.type == "cuda"
    info = Path("/proc/cpuinfo")  # Linux alone has it, and names the processor better
    lines = info.read_text(errors="replace").splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    processors = [*models, platform.processor(), platform.machine(), "unknown"]
    usable = getattr(os, "sched_getaffinity", None)  # Linux has it
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        # The package is loaded when this runs; an import from its top would go up the layers.
        "vinets": str(sys.modules[__name__.partition(".")[0]].__version__),
        "processor": next(name for name in processors if name),
        "cores": len(usable(0)) if usable is not None else os.cpu_count() or 1,
        "torch_threads": torch.get_num_threads(),
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if on_cuda else None,
        "cuda": torch.version.cuda if on_cuda else None,
    }
