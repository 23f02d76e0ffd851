"""Entry by which Spark discovers the data source ``rocketmq-queue``."""

from mqadmin.pipeline.sources.consumequeue import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
