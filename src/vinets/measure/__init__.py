"""The accuracy, size and speed of a network, and the dimension of its latents."""

from vinets.measure.accuracy import Evaluation, evaluate
from vinets.measure.bench import Measurement, Measurements, bench, compare
from vinets.measure.cost import (
    Sizes,
    flops,
    peak_bytes,
    sizes,
    stored_bytes,
    stored_indices,
    stored_numbers,
)
from vinets.measure.dimension import (
    Correlation,
    Dimensions,
    class_dimensions,
    dimension_correlation,
    intrinsic_dimension,
)
from vinets.measure.speed import Throughput, machine, measure_speed, throughput

__all__ = [
    "Correlation",
    "Dimensions",
    "Evaluation",
    "Measurement",
    "Measurements",
    "Sizes",
    "Throughput",
    "bench",
    "class_dimensions",
    "compare",
    "dimension_correlation",
    "evaluate",
    "flops",
    "intrinsic_dimension",
    "machine",
    "measure_speed",
    "peak_bytes",
    "sizes",
    "stored_bytes",
    "stored_indices",
    "stored_numbers",
    "throughput",
]
