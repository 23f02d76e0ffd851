"""Filters of consumer groups beyond a single pull: SQL92 filters with their Bloom bits."""
