"""Compiled loops: their decorator, and the folder in which their machine code is kept.

Recovery, offline scans and vectorized ingest run loops over bytes that numba compiles (extra
``fast``). Compiling takes seconds, so the code is kept for later processes. It is trusted like the
program itself: only a folder that no other user can write to is used, each file has a checksum, and
no error of a file is an error of the caller.
"""
