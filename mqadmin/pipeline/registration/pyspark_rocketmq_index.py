"""Lets Spark find the data source ``rocketmq-index``."""

from mqadmin.pipeline.tables import IndexSource as DefaultSource

__all__ = ["DefaultSource"]
