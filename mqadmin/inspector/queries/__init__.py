"""Queries about a store: messages, queues, search by key, summary, growth, timeline, losses.

They combine the readers of ``mqadmin.inspector`` (files, log, units, index); none opens a file
itself.
"""
