from collections.abc import Callable

from mqadmin.admin.group import GroupAdmin
from mqadmin.admin.session import AdminSession, ClusterAccess
from mqadmin.admin.topic import TopicAdmin
from mqadmin.traffic.library import TrafficLibrary
from mqadmin.traffic.options import BenchOptions


def test_the_group_of_one_run_leaves_nothing(
    access: ClusterAccess, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    library = TrafficLibrary(access)
    group = library.temporary_group()
    topic = new_topic("LibraryBench")
    options = BenchOptions(topic=topic, idle_ms=300, duration_ms=2_000, warm_up_ms=0)
    library.bench(options, library.stop_signal(), lambda _: None).consume(group)
    assert group in {one.group for one in GroupAdmin(admin).list().items}
    library.delete_group(admin, group)
    assert group not in {one.group for one in GroupAdmin(admin).list().items}
    assert not [one for one in TopicAdmin(admin).list().items if group in one.topic]


def test_an_existing_topic_is_accepted(
    access: ClusterAccess, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    library = TrafficLibrary(access)
    topic = new_topic("LibraryTopic", queues=3)
    library.create_topic(admin, topic, 8)
    library.create_topic(admin, "LibraryCreated", 2)
    queues = {one.topic: one.write_queue_nums for one in TopicAdmin(admin).list().items}
    assert (queues[topic], queues["LibraryCreated"]) == (3, 2)
