"""Filters of messages: compiled subscriptions, and the SQL92 filters of groups with Bloom bits."""
