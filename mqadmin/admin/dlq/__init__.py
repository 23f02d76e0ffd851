"""Dead letters: groups that have them, their messages, replay with a ledger."""
