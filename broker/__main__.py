"""``python -m broker``: the broker daemon, as ``mqbroker``."""

import sys

from broker.server.startup import main

if __name__ == "__main__":
    sys.exit(main())
