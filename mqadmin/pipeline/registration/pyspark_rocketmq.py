"""Entry by which Spark discovers the data source ``rocketmq-store``."""

from mqadmin.pipeline.sources.store import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
