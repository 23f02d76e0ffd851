"""Lets Spark find the data source ``rocketmq-store``."""

from mqadmin.pipeline.source import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
