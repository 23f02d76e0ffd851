"""The operations toolkit: online administration, offline store inspection, data pipeline."""

from broker import __version__

VERSION_LINE = f"mqadmin {__version__}\n"  # printed by ``mqadmin --version``
