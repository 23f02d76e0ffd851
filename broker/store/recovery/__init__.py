"""Recovery at start-up: scan the CommitLog, validate and rebuild ConsumeQueues and index."""
