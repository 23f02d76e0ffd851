"""Measurements: rates and latencies of sending, consuming and the way through a broker.

The runs are asynchronous and share one loop with the client; latencies go into a histogram of
fixed size, so that a run of any length needs the same memory.
"""
