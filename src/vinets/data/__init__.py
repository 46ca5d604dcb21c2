"""Point sets to try things on."""
