"""Timers of 5.x: messages that wait in a timer wheel until an arbitrary delivery time.

::

    rmq_sys_wheel_timer/0 ──enqueue──▶ timer log unit + wheel slot ──due──▶ record of the real topic
                                                                  └─roll─▶ rmq_sys_wheel_timer/0

- ``timer_message``: pure rules: delivery time, delivered copy, keys of recalled messages.
- ``timer_log``, ``timer_wheel``: the two files; only their owner writes them.
- ``timer_metrics``: pending messages per topic.
- ``timer_progress``: the part of them on the disk: wheel, log, ``timercheck``, ``timermetrics``.
- ``timer_recovery``: the state at the start, and the deliveries that a crash left unrecorded.
- ``timer_message_store``: the engine: enqueue, dequeue, roll, recall.

**Source:** RocketMQ ``org.apache.rocketmq.store.timer``.
"""
