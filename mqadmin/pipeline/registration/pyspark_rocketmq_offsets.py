"""Lets Spark find the data source ``rocketmq-offsets``."""

from mqadmin.pipeline.tables import OffsetsSource as DefaultSource

__all__ = ["DefaultSource"]
