"""Comparison of our broker with the Java broker: workloads, measured runs, result file, tables."""
