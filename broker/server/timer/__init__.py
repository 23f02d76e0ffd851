"""The broker's part of timers: when the engine runs, and the requests about timer messages.

- ``timer_service``: runs the engine of ``broker.store.timer`` on the event loop.
- ``requests``: recall, timer checkpoint, timer metrics.
"""
