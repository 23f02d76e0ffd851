"""The configuration of the broker role: declared settings, their origin, refused settings."""
