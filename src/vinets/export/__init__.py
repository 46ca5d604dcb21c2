"""Networks for other runtimes, one file a format: ONNX, :mod:`torch.export`."""

from vinets.export.checked import ExportReport, export_network
from vinets.networks.exported import ExportedNetwork, open_exported
from vinets.networks.formats import EXPORT_FORMATS, ExportFormat, Network, WholeNetwork, suffixes

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
