from __future__ import annotations

from contextlib import contextmanager, suppress

import numpy as np
import pytest
import torch

pytest.register_assert_rewrite("vinets.testing")  # its failures show values, as those of tests do

with suppress(ImportError):  # a machine that only measures may be without
    from hypothesis import settings

    settings.register_profile("any machine", deadline=None)  # a busy one is slow, and not wrong
    settings.load_profile("any machine")


LONGEST = {  # files that take ten seconds or more
    *("test_program.py", "test_reproduce.py", "test_zoo.py", "test_digits.py", "test_run.py"),
    *("test_onnx.py", "test_executors.py", "test_make.py", "test_export.py", "test_construct.py"),
    *("test_readme_and_tables.py", "test_insight.py", "test_stream.py", "test_tutorials.py"),
}


def pytest_collection_modifyitems(items):
    """Begin with the longest files, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Small matrices: threads cost more than they bring."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def _short_windows():
    """Speed is measured for a moment only, whatever a command takes by default."""
    from vinets.measure.speed import _Runner

    inner = _Runner.window
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Runner, "window", lambda self, seconds: inner(self, min(seconds, 0.01)))
        yield


@pytest.fixture(autouse=True)
def _seeded():
    """Weights that a test does not choose are the same in every order of the tests."""
    torch.manual_seed(0)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def full_disk():
    """Where no file may grow beyond so many bytes, as if the disk were full there."""
    resource = pytest.importorskip("resource")  # Windows has none

    @contextmanager
    def full(room: int):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return full
