"""Ordinary pulls with the extra ``fast``: a compiled loop copies the records of a pull."""
