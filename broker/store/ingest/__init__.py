"""Storing many plain records per call: the compiled loops, and the blocks that dispatch takes.

Needs the extra ``fast``. Kernels write into arrays of Python; files are written by their owners.
"""
