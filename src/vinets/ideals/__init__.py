"""Vanishing-ideal algorithms as estimators: ABM, OAVI, VCA, and class-wise fits."""
