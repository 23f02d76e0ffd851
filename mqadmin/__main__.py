"""``python -m mqadmin`` and the console script ``mqadmin``."""

import os
import sys

from mqadmin.app import main as run


def main() -> None:
    """Run the command line of this process and exit with its status.

    The process ends without the finalization of the interpreter, which takes as long as an eighth
    of a short command: files are closed, the streams flushed. Commands that load Spark or start
    threads exit normally.
    """
    status = run()
    if "threading" in sys.modules:
        sys.exit(status)
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except OSError:
        sys.exit(status)
    os._exit(status)


if __name__ == "__main__":
    main()
