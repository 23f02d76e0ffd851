"""Entry by which Spark discovers the data source ``rocketmq-index``."""

from mqadmin.pipeline.sources.index import IndexSource as DefaultSource

__all__ = ["DefaultSource"]
