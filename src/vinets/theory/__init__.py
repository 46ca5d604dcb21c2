"""The theory behind VI-Nets: spectral complexity, encodings and bounds."""
