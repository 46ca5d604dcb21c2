"""Whole networks beside product heads: what they are, how well they do, how fast they run.

    python -m benchmarks.rivals train uncut classic narrow pruned --out R/test --jobs 8
    python -m benchmarks.rivals train classic narrow --epochs 100 --out R/test --jobs 8
    python -m benchmarks.rivals speed resnet18 --parts device training --weights weights --out R
    python -m benchmarks.rivals speed resnet18 --parts cpu --device cpu --weights weights --out R
    python -m benchmarks.rivals table R/test benchmarks/results/tuning/test R/speed-*.json
    python -m benchmarks.rivals figure

where R is ``benchmarks/results/rivals``, from which ``figure`` draws ``docs/images/frontier-*``. A
call of ``train`` ends after ``--minutes``; the same call goes on where that one ended. Pruning
needs torch-pruning (1.6.1), which nothing else here does. Recipes and scopes are chosen by ``train
choices`` on images that were held out before the given networks were trained, see
:mod:`benchmarks.tuning`.
"""
