"""A backbone and a head as one network, in memory, on disk and by name."""

from vinets.models.origin import Record
from vinets.networks.network import CutNetwork, VINet

__all__ = ["CutNetwork", "Record", "VINet"]
