"""The version line: a constant, so that ``--version`` needs no import."""

from broker import __version__


def version_line() -> str:
    """Return the line that ``mqadmin --version`` prints."""
    return f"mqadmin {__version__}\n"
