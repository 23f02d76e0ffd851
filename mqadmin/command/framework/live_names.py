"""Names of topics, groups, brokers and contexts for completion."""

from collections.abc import Mapping
from typing import Any

from mqadmin.command.execution.online import clusters, connect, groups, topics
from mqadmin.settings import config_path, load_contexts, resolve

TIMEOUT_MS = 500  # of all requests: the user waits after pressing the completion key


def live_names(source: str, given: Mapping[str, Any], environ: Mapping[str, str]) -> set[str]:
    """Return the names of a source; ``given`` are the global options already on the line."""
    if source == "context":
        return set(load_contexts(config_path(environ)).named)
    settings = resolve(given, environ)
    settings.effective["timeout"].value = f"{TIMEOUT_MS}ms"
    with connect(settings, None) as admin:
        if source == "topic":
            return {item.topic for item in topics(admin).list().items}
        if source == "group":
            return {item.group for item in groups(admin).list(include_system=False).items}
        if source == "broker":
            return {item.broker_name for item in clusters(admin).list(status=False).items}
    return set()
