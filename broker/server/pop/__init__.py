"""POP consumption: messages are delivered to any member of a group, one by one, for a time.

::

    processor/        requests: pop, ack, invisible time, notification, peek, assignment
    service           the shared state, and the work by time
    buffer            check points and acks merged in memory       (pure)
    order_info        batches of ordered pops                      (pure)
    long_polling      suspended pops and notifications             (pure)
    revive/           the revive topic: writing, reading, redelivery
    assignment/       pull or pop, and the consumer of each queue
    pop_offsets       where the next pop starts; resets, init mode
    wheel_timer       the store's timer messages as the timer of check points
    timers, files     event-loop timers; consumerOrderInfo.json, messageRequestMode.json

A pop delivers messages and opens a check point for them: they are invisible to the group until
they are acknowledged or the invisible time ends. The consumer offset moves on at once; the check
point replaces it as the record of the messages in flight. Check points and acknowledgements are
messages in Java's format, delivered by the timer to the revive topic, so that a Java broker can
continue with the store and the other way round.

No module here imports the context except the processors: the services get their parts.
"""
