"""Everything about messages in one class: queries, sending, following a topic."""

from collections.abc import Iterator
from typing import Any

from mqadmin.admin.message.query import MessageQueries
from mqadmin.admin.message.record import BodyView, record_of
from mqadmin.admin.message.send import Outgoing, SendPlan, SendRecord, plan_send, send
from mqadmin.admin.message.tail import ROUND_MS, Report, TailQuestion, tail
from mqadmin.message_row import MessageRow


class MessageAdmin(MessageQueries):
    """Queries about messages, sending, and following a topic."""

    def send(self, topic: str, body: bytes, **options: Any) -> SendRecord:
        """Send one message; ``options`` are the fields of :class:`Outgoing`."""
        return send(self._admin, Outgoing(topic=topic, body=body, **options))

    def plan_send(self, topic: str, body: bytes, **options: Any) -> SendPlan:
        """Run the checks of :meth:`send` and return the fields known beforehand; send nothing."""
        return plan_send(self._admin, Outgoing(topic=topic, body=body, **options))

    def tail(
        self,
        topic: str,
        *,
        last: int = 0,
        follow: bool = True,
        for_ms: int | None = None,
        tags: str = "*",
        broker: str | None = None,
        queue_id: int | None = None,
        body: BodyView | None = None,
        report: Report | None = None,
    ) -> Iterator[MessageRow]:
        """Yield messages as they arrive, starting ``last`` messages before the end.

        Without ``follow`` it stops at the present end, with ``for_ms`` after that time.
        ClientError for an unknown topic. A broker that does not respond is passed to ``report``
        and queried again later; when every broker fails, the last error is raised.
        """
        question = TailQuestion(
            topic=topic,
            last=last,
            follow=follow,
            for_ms=for_ms,
            tags=tags,
            broker=broker,
            queue_id=queue_id,
        )
        admin = self._admin.without_deadline(ROUND_MS) if follow else self._admin
        try:
            for name, message in tail(admin, question, report or (lambda _: None)):
                yield record_of(message, name, body)
        finally:
            if follow:
                admin.close()
