"""Rebuilding the files derived from the log: ConsumeQueues and IndexFiles."""
