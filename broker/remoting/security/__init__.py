"""Access levels of connections, and the ACL signature of requests."""
