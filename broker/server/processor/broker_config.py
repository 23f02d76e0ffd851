"""The broker's settings over the wire: read (26) and change (25).

Only settings marked ``live`` may change while the broker runs; they take effect at once and are
written to the broker's configuration file when there is one.

**Source:** RocketMQ AdminBrokerProcessor#updateBrokerConfig, #getBrokerConfig, Configuration.
"""

from typing import TYPE_CHECKING

from broker.common import java_json
from broker.common.properties import parse_properties
from broker.errors import ConfigError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def get_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_CONFIG: every setting in force, sorted, one ``key=value`` per line."""
    lines = sorted(f"{key}={value}" for key, value in context.settings.shown().items())
    version = java_json.dumps(context.settings.version.to_wire())
    return response(request, ext={"version": version}, body=("\n".join(lines) + "\n").encode())


def update_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_BROKER_CONFIG: keys on the black list or not changeable refuse the whole request.

    Unknown keys are ignored, as Java does.
    """
    try:
        changes = parse_properties(request.body_bytes().decode("utf-8", "replace"))
    except ValueError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, f"not properties text: {error}")
    settings = context.settings
    refused = settings.why_not(changes)
    if refused is not None:
        return response(request, ResponseCode.NO_PERMISSION, refused)
    try:
        settings.update(changes, context.now_ms())
    except ConfigError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    before = context.config
    context.set_config(settings.broker)
    context.store.set_config(settings.store)
    if before.broker_permission != settings.broker.broker_permission:
        context.topics.touch()
    return response(request)


HANDLERS = {
    RequestCode.GET_BROKER_CONFIG: get_config,
    RequestCode.UPDATE_BROKER_CONFIG: update_config,
}
