"""The HA connection between master and slave: the slave's stream, and TLS of both ends."""
