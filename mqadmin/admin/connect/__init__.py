"""Credentials and TLS of a session, which cost more to import than a whole command."""
