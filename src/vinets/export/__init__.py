"""Networks for other runtimes: ONNX, :mod:`torch.export`."""

from vinets.export.checked import ExportReport, export_network
from vinets.networks.runtimes import (
    EXPORT_FORMATS,
    ExportedNetwork,
    ExportFormat,
    Network,
    WholeNetwork,
    open_exported,
    suffixes,
)

__all__ = [
    "EXPORT_FORMATS",
    "ExportFormat",
    "ExportReport",
    "ExportedNetwork",
    "Network",
    "WholeNetwork",
    "export_network",
    "open_exported",
    "suffixes",
]
