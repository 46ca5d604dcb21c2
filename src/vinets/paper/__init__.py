"""The paper's tables and figures, over runs that they share."""
