"""``python -m broker``: runs the broker daemon, like ``mqbroker``."""

import sys

from broker.server.startup import main

if __name__ == "__main__":
    sys.exit(main())
