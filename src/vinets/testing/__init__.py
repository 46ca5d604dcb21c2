"""Suites of tests for what is added to vinets: a test class inherits one, and pytest runs it.

One module a kind: ``oracles``, ``ideals``, ``sources``, ``heads``. A subclass of the suite whose
name begins with ``Test`` says how to make the thing, and pytest runs every check on it.
"""

from pkgutil import iter_modules

try:
    import pytest
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "vinets.testing holds tests for pytest, which is not installed. "
        "Install it with: pip install 'vinets[test]'"
    ) from None

# A failure is to show the values compared, as it does in a file of tests.
pytest.register_assert_rewrite(*(f"{__name__}.{part.name}" for part in iter_modules(__path__)))
