from __future__ import annotations

FITS, SEED = 80, 1


def test_fits_of_degenerate_points_are_right_or_refused():
    from degenerate.harness import run

    report = run(SEED, range(FITS))
    print(report)
    assert not report.failures, str(report)
    assert report.fits == FITS and report.generators > FITS and report.decisions > 2 * FITS
    assert report.open < report.decisions / 4  # most of them are judged


def test_the_loop_notices_a_wrong_decision_and_a_wrong_mean_square():
    import numpy as np

    from degenerate.cases import Case
    from degenerate.harness import _fit, decisions, mean_squares
    from vinets import ABM

    points = np.random.default_rng(0).uniform(-1, 1, (20, 2))
    case = Case("", points, ABM(psi=0.02, max_degree=3))
    _fit(case)
    assert not mean_squares(case, False) and not decisions(case).faults
    case.estimator.psi = 0.002  # what it found is not what this asks for
    assert decisions(case).faults and mean_squares(case, False)
    case.estimator.psi, case.estimator.mean_squares_ = 0.02, case.estimator.mean_squares_ * 1.001
    assert mean_squares(case, False)


def test_a_small_tolerance_is_decided_by_a_smaller_gap():
    """Inside the ball x2*x3 vanishes; a dual gap of 1e-7 would say nothing about 7e-11."""
    from degenerate.cases import make
    from vinets import OAVI

    points = make(0, 642).given.double()
    model = OAVI(psi=6.8e-11, oracle="exact", tau=3.0, max_degree=2, border="full").fit(points)
    assert [0, 0, 1, 1] in model.leading_terms_.tolist()
