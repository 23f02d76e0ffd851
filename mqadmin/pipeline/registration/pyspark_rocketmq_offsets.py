"""Entry by which Spark discovers the data source ``rocketmq-offsets``."""

from mqadmin.pipeline.sources.offsets import OffsetsSource as DefaultSource

__all__ = ["DefaultSource"]
