"""Cut a network and look at what flows through the cut."""
