"""DispatchRequest: the same fields from a put and from the log."""

from broker.store.dispatch.request import DispatchRequest


def test_a_pending_record_has_the_fields_that_the_log_gives(stores, inner):
    turn = []
    store = stores.start(defer=turn.append)
    store.put_message(inner(properties={"TAGS": "a", "KEYS": "k"}))
    store.put_message(inner(topic="TopicB", queue_id=2, sys_flag=0x8))
    pending = [DispatchRequest._make(entry) for entry in store.reput.pending]
    file = store.log.files.files[0]
    read = [store.reput.read(file.mapping, one.physical_offset, file.start) for one in pending]
    assert [one._replace(tags_code=None) for one in pending] == read
    assert [one.physical_end for one in read] == [
        pending[1].physical_offset,
        store.max_physical_offset,
    ]
    for job in turn:
        job()
