"""Dispatch: from appended records to ConsumeQueues, index and listeners, and when it happens."""
