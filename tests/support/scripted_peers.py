"""Connections that answer by script, for the client's classes."""

from collections.abc import Callable, Sequence

from broker.errors import RocketMQError
from broker.remoting.protocol.body.namesrv.route import BrokerData, QueueData, TopicRouteData
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response

Script = Callable[[str, RemotingCommand], RemotingCommand | RocketMQError]


class Scripted:
    """``scripts`` maps a request code to its handler; ``calls`` lists the requests."""

    def __init__(self) -> None:
        self.scripts: dict[int, Script] = {}
        self.calls: list[tuple[str, RemotingCommand]] = []
        self.routes: dict[str, TopicRouteData] = {}
        self.closed = False
        self.scripts[105] = self._route

    def route(self, topic: str, *brokers: str, queues: int = 2, **fields: object) -> None:
        """Give a topic a route: each broker ``name`` has its master at ``name:1``."""
        self.routes[topic] = TopicRouteData(
            queue_datas=[
                QueueData(
                    **{
                        "broker_name": name,
                        "read_queue_nums": queues,
                        "write_queue_nums": queues,
                        "perm": 6,
                        **fields,
                    }
                )
                for name in brokers
            ],
            broker_datas=[
                BrokerData(cluster="c", broker_name=name, broker_addrs={0: f"{name}:1"})
                for name in brokers
            ],
        )

    def _route(self, address: str, command: RemotingCommand) -> RemotingCommand:
        data = self.routes.get(command.ext_fields["topic"])
        if data is None:
            return response(command, ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
        return response(command, body=data.to_bytes())

    def asked(self, code: int) -> list[str]:
        return [address for address, command in self.calls if command.code == code]

    def call(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        self.calls.append((address, command))
        answer = self.scripts[command.code](address, command)
        if isinstance(answer, RocketMQError):
            raise answer
        return answer

    def call_all(
        self, calls: Sequence[tuple[str, RemotingCommand]], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        answers: list[RemotingCommand | RocketMQError] = []
        for address, command in calls:
            try:
                answers.append(self.call(address, command))
            except RocketMQError as error:
                answers.append(error)
        return answers

    def close(self) -> None:
        self.closed = True
