"""A backbone and a head as one network, in memory, on disk and by name."""

from vinets.networks.network import CutNetwork, Record, VINet

__all__ = ["CutNetwork", "Record", "VINet"]
