"""Broker settings over the wire: GET_BROKER_CONFIG (26) and UPDATE_BROKER_CONFIG (25).

Only settings marked ``live`` may change while the broker runs; they take effect immediately and
are written to the broker's configuration file if it has one.

**Source:** RocketMQ AdminBrokerProcessor#updateBrokerConfig, #getBrokerConfig, Configuration.
"""

from typing import TYPE_CHECKING

from broker.common.config.properties import parse_properties
from broker.common.encoding import java_json
from broker.errors import ConfigError, StoreError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.rpc import Access
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def get_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_CONFIG: every effective setting, sorted, one ``key=value`` per line.

    Secrets are masked. The values of unknown keys are masked too unless an administrator asks.
    """
    administrator = connection.access >= Access.ADMINISTRATOR
    shown = context.settings.shown(administrator=administrator)
    lines = sorted(f"{key}={value}" for key, value in shown.items())
    version = java_json.dumps(context.settings.version.to_wire())
    return response(request, ext={"version": version}, body=("\n".join(lines) + "\n").encode())


def update_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_BROKER_CONFIG: refuse the whole request if any key is blacklisted or not live.

    Unknown keys are ignored, as in Java.
    """
    try:
        changes = parse_properties(request.body_bytes().decode("utf-8", "replace"))
    except ValueError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, f"not properties text: {error}")
    settings = context.settings
    refused = settings.reject_reason(changes)
    if refused is not None:
        return response(request, ResponseCode.NO_PERMISSION, refused)
    try:
        settings.update(changes, context.now_ms())
    except (ConfigError, StoreError) as error:
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
