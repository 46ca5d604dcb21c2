"""The paper's tables and figures, over runs that they share."""

from vinets.report.words import Words

WORDS = Words(__name__, "experiments.toml")
text, table = WORDS.text, WORDS.table


def heading(experiment: str) -> tuple[str, str, str, float]:
    """Return what an :class:`vinets.paper.plan.Experiment` begins with."""
    words = WORDS.parts[experiment]
    return experiment, words["title"], words["paper"], words["order"]
