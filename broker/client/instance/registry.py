"""Sharing of client instances: clients of one event loop with the same id share one.

**Source:** RocketMQ ``MQClientManager``.
"""

import asyncio
from weakref import WeakKeyDictionary

from broker.client.config import DEFAULT_INSTANCE, ClientConfig
from broker.client.instance.client_instance import MQClientInstance, make_client_id
from broker.common.clock import Clock
from broker.remoting.rpc.uniq_key import own_ip

_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, MQClientInstance]] = (
    WeakKeyDictionary()
)


def acquire_instance(
    config: ClientConfig, clock: Clock | None = None, *, broadcasting: bool = False
) -> MQClientInstance:
    """Return the instance for a configuration, and count one more user of it.

    The default instance name gives each client its own, except broadcasting consumers: their
    offsets are stored under the client id, which therefore must not change with the process.
    """
    ip = config.client_ip or own_ip()
    if broadcasting and config.instance_name == DEFAULT_INSTANCE:
        unit = f"@{config.unit_name}" if config.unit_name else ""
        client_id = f"{ip}@{DEFAULT_INSTANCE}{unit}"
    else:
        client_id = make_client_id(config, ip)
    known = _instances.setdefault(asyncio.get_running_loop(), {})
    instance = known.get(client_id)
    if instance is None:
        instance = known[client_id] = MQClientInstance(config, client_id=client_id, clock=clock)
    instance.users += 1
    return instance


async def release_instance(instance: MQClientInstance) -> None:
    """Count one user less; the last one stops the instance."""
    instance.users -= 1
    if instance.users <= 0:
        known = _instances.get(asyncio.get_running_loop(), {})
        if known.get(instance.client_id) is instance:
            del known[instance.client_id]
        await instance.shutdown()
