"""Spark data sources over the files of a store directory.

``rocketmq-store`` reads the CommitLog (``store`` in batches, ``stream`` continuously),
``rocketmq-queue``, ``rocketmq-index`` and ``rocketmq-offsets`` the derived files and the consumer
offsets, ``rocketmq-verify`` the findings of ``mqadmin store verify``. All of them only read;
``partitions`` cuts the files into the parts that one task reads.
"""
