"""The partitions of the data sources: splits of store files, and the readers of one split."""
