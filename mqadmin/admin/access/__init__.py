"""Users and access rules of brokers (ACL 2.0, since 5.3.0)."""
