"""Responding: the compiled loop that turns rows into responses."""
