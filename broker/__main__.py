"""The console scripts ``mqbroker`` and ``mqnamesrv``; ``python -m broker`` is the former."""

import signal
import sys


def mqbroker() -> int:
    """Run the broker daemon; returns its exit status."""
    end_on_interrupt()
    from broker.server.startup import main

    return main()


def mqnamesrv() -> int:
    """Run the name server daemon; returns its exit status."""
    end_on_interrupt()
    from broker.namesrv.startup import main

    return main()


def end_on_interrupt() -> None:
    """Let SIGINT end the process without a traceback until the daemon handles the signal.

    Most of a start is imports. A signal that the parent process ignores stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(mqbroker())
