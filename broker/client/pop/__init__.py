"""POP consumption (5.x): the broker assigns message by message and keeps the offsets.

``PopAPI`` holds the requests, shared by the simple consumer and the push consumer; ``PopService``
and ``ConsumePopConcurrentlyService`` are the push consumer in POP mode.
"""
