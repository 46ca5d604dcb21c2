"""Build, save, load, predict, again and again: memory stays where it is."""
