"""Whole networks that stand beside VI-Nets: what they are, how well they do, how fast they run.

    python -m benchmarks.rivals train uncut classic narrow pruned --out R/24 --jobs 8
    python -m benchmarks.rivals train classic narrow --epochs 100 --out R/100 --jobs 8
    python -m benchmarks.rivals speed resnet18 --weights weights --out R
    python -m benchmarks.rivals table R benchmarks/results/tuning/test

A call of ``train`` ends after ``--minutes``; the same call goes on where that one ended. Pruning
needs torch-pruning (1.6.1), which nothing else here does. Recipes and scopes are chosen by ``train
choices`` on images that were held out before the given networks were trained, see
:mod:`benchmarks.tuning`.
"""
