"""Declarations of the jobs, one module each; none of them imports Spark.

``mqadmin.pipeline.jobs`` has a module of the same name with the functions that compute the tables.
"""
