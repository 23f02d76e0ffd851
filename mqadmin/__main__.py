"""``python -m mqadmin`` and the console script ``mqadmin``."""

import sys

from mqadmin.app import main as run


def main() -> None:
    """Run the command line of this process and exit with its status."""
    sys.exit(run())


if __name__ == "__main__":
    main()
