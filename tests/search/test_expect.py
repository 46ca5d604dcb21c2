from __future__ import annotations

import subprocess
import sys

from vinets.search.result import SearchPlan


def test_without_resource_the_memory_is_not_known():
    """Windows has no module ``resource``."""
    script = (
        "import sys; sys.modules['resource'] = None\n"
        "import torch; from vinets.search import expect\n"
        "assert expect._memory(torch.device('cpu')) is None"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_a_plan_says_the_memory_where_it_is_known():
    assert str(SearchPlan((), ((4, 2),), 30.0, 1 << 30)).endswith("30 seconds and 1.0 GiB.")
    assert str(SearchPlan((), ((4, 2),), 30.0, None)).endswith("about 30 seconds.")
