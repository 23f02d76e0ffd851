"""Lets Spark find the data source ``rocketmq-verify``."""

from mqadmin.pipeline.verified import VerifySource as DefaultSource

__all__ = ["DefaultSource"]
