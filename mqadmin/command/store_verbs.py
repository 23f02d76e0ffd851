"""The noun ``store`` with all its verbs, which are declared in several modules."""

from mqadmin.command import store_export, store_repair, store_verify, store_views
from mqadmin.command.store import NOUN

__all__ = ["NOUN", "store_export", "store_repair", "store_verify", "store_views"]
