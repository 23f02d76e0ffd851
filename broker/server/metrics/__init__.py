"""The broker's own metrics (``metricsExporterType=PROM``), under the names of a Java broker.

Nothing is loaded and nothing is counted unless the setting asks for it.
"""
