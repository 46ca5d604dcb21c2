"""The paper's tables and figures: one file each, over runs that they share."""
