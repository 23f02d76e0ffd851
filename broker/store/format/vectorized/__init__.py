"""The formats decoded in bulk: numpy columns and numba kernels, for many records per call.

Optional: without numpy and numba (extra ``fast``) the scanners of ``broker.store.format`` decode
record by record, with equal results.
"""
