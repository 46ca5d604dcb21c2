"""Fits of degenerate points, each judged by an independent loop."""
