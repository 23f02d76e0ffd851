"""Dead-letter queues: the groups that have one, their messages, replay with a ledger."""
