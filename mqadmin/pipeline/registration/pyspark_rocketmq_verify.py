"""Entry by which Spark discovers the data source ``rocketmq-verify``."""

from mqadmin.pipeline.sources.verify import VerifySource as DefaultSource

__all__ = ["DefaultSource"]
