"""Hooks around sends and listener calls, and their two users: message trace and metrics.

**Source:** RocketMQ ``SendMessageHook``, ``ConsumeMessageHook``, ``client.trace``.
"""
