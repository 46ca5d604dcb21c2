"""Networks that end in polynomials; the heads that they end in are in :mod:`vinets.nn.heads`."""

from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.network import CutNetwork, Record, VINet
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["BlockPolynomialLayer", "CutNetwork", "PolynomialLayer", "Record", "VINet"]
