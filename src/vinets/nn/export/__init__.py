"""Networks for other runtimes, one file a format: ONNX, :mod:`torch.export`."""

from vinets.nn.export.checked import ExportReport, export_network
from vinets.nn.export.formats import EXPORT_FORMATS, ExportFormat, Network, WholeNetwork, suffixes
from vinets.nn.export.opened import ExportedNetwork, open_exported

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
