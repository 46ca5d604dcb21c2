"""Networks for other runtimes, one file a format: ONNX, and programs of :mod:`torch.export`."""

from vinets.nn.export.checked import ExportReport, export_network
from vinets.nn.export.formats import EXPORT_FORMATS, ExportFormat, suffixes

__all__ = ["EXPORT_FORMATS", "ExportFormat", "ExportReport", "export_network", "suffixes"]
