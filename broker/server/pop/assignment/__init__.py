"""Which queues a member of a group owns, and whether it pulls or pops them."""
