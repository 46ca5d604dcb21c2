"""The command line: how to do it from a shell."""
