"""Commands about users and access rules."""
