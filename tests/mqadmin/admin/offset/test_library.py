"""Consumer offsets: the plan, the three ways to a broker, the read-back, the undo file."""

import json
from pathlib import Path

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError, ConfigError
from broker.remoting.protocol.codes import RequestCode, ResponseCode


@pytest.fixture
def filled(broker_a):
    """Queue 0 holds offsets 2..9 of ten messages, queue 1 three; the group is at 5 and 1."""
    for _ in range(10):
        broker_a.store("orders", 0)
    for _ in range(3):
        broker_a.store("orders", 1)
    broker_a.expire("orders", 0, 2)
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_a.committed("g", "orders").update({0: 5, 1: 1})
    return broker_a


@pytest.fixture
def undo(tmp_path):
    return str(tmp_path / "undo.json")


def moves(plan):
    return {i.queue_id: (i.current_offset, i.new_offset, i.skipped, i.repeated) for i in plan.items}


class TestPlan:
    def test_earliest(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "earliest")
        assert moves(plan) == {
            0: (5, 2, 0, 3),
            1: (1, 0, 0, 1),
            2: (None, 0, 0, 0),
            3: (None, 0, 0, 0),
        }
        assert not filled.reset_clients
        assert filled.committed("g", "orders") == {0: 5, 1: 1}

    def test_latest_counts_skipped_messages(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        assert moves(plan) == {0: (5, 10, 5, 0)}

    def test_offsets_are_moved_to_the_edge(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "1", queue_id=0)
        assert moves(plan)[0][1] == 2
        assert moves(admin.offset.plan_reset("g", "orders", "999"))[1][1] == 3

    def test_shift(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "shift:-2")
        assert moves(plan) == {0: (5, 3, 0, 2), 1: (1, 0, 0, 1)}
        clamped, alone = plan.warnings
        assert "clamped to its edge: orders broker-a/1 to 0" in clamped
        assert "left alone" in alone
        assert "orders broker-a/2" in alone

    def test_time_and_duration(self, admin, cluster, filled):
        cluster.clock.advance(3_600_000)
        filled.store("orders", 0)
        plan = admin.offset.plan_reset("g", "orders", f"@{cluster.clock.now_ms()}", queue_id=0)
        assert moves(plan)[0][1] == 10
        assert plan.to_timestamp == cluster.clock.now_ms()
        assert [item.to_timestamp for item in plan.items] == [cluster.clock.now_ms()]

    def test_digits_are_an_offset_however_many_there_are(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "1700000000", queue_id=0)
        assert (moves(plan)[0][1], plan.to_timestamp) == (10, None)
        assert "1700000000 is a queue offset here; a time is written @1700000000" in plan.warnings

    @pytest.mark.parametrize(
        ("to", "clamped"),
        [
            ("shift:-100", True),
            ("shift:-1", False),
            ("999", True),
            ("10", False),
            ("latest", False),
        ],
    )
    def test_a_target_outside_the_queue_is_reported_as_clamped(self, admin, filled, to, clamped):
        plan = admin.offset.plan_reset("g", "orders", to, queue_id=0)
        (item,) = plan.items
        assert item.clamped is clamped
        assert any("clamped" in warning for warning in plan.warnings) is clamped

    def test_an_unknown_group_fails_in_the_plan(self, admin, cluster, filled, undo):
        with pytest.raises(ClientError, match="group nosuch does not exist on broker-a") as caught:
            admin.offset.plan_reset("nosuch", "orders", "latest")
        assert "group create nosuch" in caught.value.hint

    def test_a_broker_that_lacks_the_group_is_an_error_beside_the_others(
        self, admin, filled, broker_b
    ):
        broker_b.store("orders")
        plan = admin.offset.plan_reset("g", "orders", "latest")
        assert {item.broker_name for item in plan.items} == {"broker-a"}
        assert [error.target for error in plan.errors] == ["broker-b"]

    def test_an_old_broker_takes_a_group_that_is_known_by_its_offsets_alone(self, admin, filled):
        filled.version = 400
        filled.config["useServerSideResetOffset"] = "false"
        filled.groups.clear()
        assert admin.offset.plan_reset("g", "orders", "latest", queue_id=0).items
        with pytest.raises(ClientError, match="group nosuch does not exist"):
            admin.offset.plan_reset("nosuch", "orders", "latest")

    def test_existing_entries_are_unchanged(self, admin, filled):
        plan = admin.offset.plan_reset("g", "orders", "offset:5", queue_id=0)
        assert plan.empty
        assert admin.offset.apply_reset(plan) is plan

    def test_unknown_topic_and_queue(self, admin, filled):
        with pytest.raises(ClientError, match="no route"):
            admin.offset.plan_reset("g", "nope", "latest")
        with pytest.raises(ClientError, match="no such queue"):
            admin.offset.plan_reset("g", "orders", "latest", queue_id=9)

    def test_a_dead_broker_is_an_error_of_the_plan(self, admin, filled, broker_b):
        broker_b.store("orders")
        broker_b.down = True
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        assert [item.broker_name for item in plan.items] == ["broker-a"]
        assert {error.kind for error in plan.errors} == {"unreachable"}
        assert not plan.ok


class TestApply:
    def test_server_side(self, admin, cluster, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest")
        done = admin.offset.apply_reset(plan, undo_path=undo)
        assert done.ok
        assert [item.status for item in done.items] == ["done"] * 4
        assert filled.committed("g", "orders") == {0: 10, 1: 3, 2: 0, 3: 0}
        # a first offset is committed, so that it can be removed again; see TestUndo
        assert [item.via for item in done.items] == ["server", "server", "direct", "direct"]
        assert len(cluster.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)) == 2

    def test_offset_zero_can_be_set(self, admin, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "0", queue_id=1)
        assert admin.offset.apply_reset(plan, undo_path=undo).ok
        assert filled.committed("g", "orders")[1] == 0

    def test_an_old_broker_without_clients_gets_commits(self, admin, cluster, filled, undo):
        filled.config["useServerSideResetOffset"] = "false"
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        assert [item.via for item in plan.items] == ["direct"]
        assert admin.offset.apply_reset(plan, undo_path=undo).ok
        assert not cluster.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)

    def test_an_old_broker_with_clients_notifies_them(self, admin, filled, undo):
        filled.config["useServerSideResetOffset"] = "false"
        filled.connect("g", "c1", "orders")
        plan = admin.offset.plan_reset("g", "orders", "latest")
        assert {item.via for item in plan.items} == {"clients"}
        done = admin.offset.apply_reset(plan, undo_path=undo)
        assert filled.reset_clients == [("g", -1)]
        assert {item.status for item in done.items} <= {"pending", "done"}
        assert "apply the reset within about" in done.warnings[-1]

    def test_an_old_broker_with_clients_cannot_set_one_queue(self, admin, cluster, filled):
        filled.config["useServerSideResetOffset"] = "false"
        filled.connect("g", "c1", "orders")
        plan = admin.offset.plan_reset("g", "orders", "shift:-1")
        assert not plan.items
        assert "stop the clients" in plan.errors[0].hint
        admin.offset.apply_reset(plan)
        assert not cluster.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)

    def test_a_refusal_is_listed_at_its_queue(self, admin, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        filled.groups.clear()
        done = admin.offset.apply_reset(plan, undo_path=undo)
        (item,) = done.items
        assert (item.status, item.error.response_code) == ("failed", 26)
        assert "group create" in item.error.hint
        # nothing was changed, so there is nothing to undo
        assert (done.undo_path, Path(undo).exists()) == (None, False)

    def test_the_undo_file_is_kept_when_the_broker_may_have_done_it(self, admin, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        honest = filled.on_222

        def done_but_unanswered(header, command):
            honest(header, command)
            filled.silent = True

        filled.on_222 = done_but_unanswered
        cluster_answer = admin.offset.apply_reset(plan, undo_path=undo)
        assert cluster_answer.items[0].status in {"failed", "differs"}
        assert (cluster_answer.undo_path, Path(undo).exists()) == (undo, True)

    def test_a_broker_that_ignores_it_is_found_out(self, admin, filled, undo):
        filled.ignore_writes = True
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        (item,) = admin.offset.apply_reset(plan, undo_path=undo).items
        assert (item.status, item.read_back) == ("differs", 5)
        assert "is 5 instead of 10" in item.error.message

    def test_online_clients_may_have_gone_on(self, admin, filled, undo):
        filled.connect("g", "c1", "orders")
        plan = admin.offset.plan_reset("g", "orders", "3", queue_id=0)
        before = filled.on_222

        def reset_and_consume(header, command):
            answer = before(header, command)
            filled.committed("g", "orders")[0] = 4
            return answer

        filled.on_222 = reset_and_consume
        (item,) = admin.offset.apply_reset(plan, undo_path=undo).items
        assert (item.status, item.read_back) == ("done", 4)

    def test_a_plan_that_no_longer_holds_changes_nothing(self, admin, cluster, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest")
        filled.committed("g", "orders")[0] = 7  # by another program: no client is connected
        done = admin.offset.apply_reset(plan, undo_path=undo)
        by_queue = {item.queue_id: item.status for item in done.items}
        assert by_queue[0] == "moved"
        assert set(by_queue.values()) <= {"moved", "skipped", "unchanged"}
        assert "was 5 in the plan and is 7 now" in done.errors[0].message
        assert not cluster.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
        assert not Path(undo).exists()

    def test_clients_that_commit_meanwhile_are_in_the_undo_file(self, admin, filled, undo):
        filled.connect("g", "c1", "orders")
        plan = admin.offset.plan_reset("g", "orders", "0", queue_id=0)
        filled.committed("g", "orders")[0] = 7
        (item,) = admin.offset.apply_reset(plan, undo_path=undo).items
        assert (item.status, item.current_offset, item.repeated) == ("done", 7, 5)
        assert json.loads(Path(undo).read_text())["offsets"][0]["consumerOffset"] == 7

    def test_clients_are_sent_back_though_the_committed_offset_is_there(self, admin, filled, undo):
        filled.connect("g", "c1", "orders")
        (item,) = admin.offset.plan_reset("g", "orders", "5", queue_id=0).items
        assert (item.current_offset, item.new_offset, item.status) == (5, 5, "planned")


class TestUndo:
    def test_the_file_brings_everything_back(self, admin, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest")
        done = admin.offset.apply_reset(plan, undo_path=undo)
        assert done.undo_path == undo
        back = admin.offset.plan_reset("g", "orders", f"file:{undo}")
        assert moves(back) == {
            0: (10, 5, 0, 5),
            1: (3, 1, 0, 2),
            2: (0, None, 0, 0),
            3: (0, None, 0, 0),
        }
        assert admin.offset.apply_reset(back, undo_path=undo + "2").ok
        assert filled.committed("g", "orders") == {0: 5, 1: 1}

    def test_a_first_reset_is_undone_to_no_offset(self, admin, filled, undo):
        filled.committed("g", "orders").clear()
        done = admin.offset.apply_reset(
            admin.offset.plan_reset("g", "orders", "earliest"), undo_path=undo
        )
        assert done.ok
        assert [
            item["consumerOffset"] for item in json.loads(Path(undo).read_text())["offsets"]
        ] == [None] * 4
        back = admin.offset.plan_reset("g", "orders", f"file:{undo}")
        assert not back.empty
        again = admin.offset.apply_reset(back, undo_path=undo + "2")
        assert again.ok
        assert [(item.new_offset, item.read_back) for item in again.items] == [(None, None)] * 4
        assert filled.committed("g", "orders") == {}

    def test_an_offset_is_not_removed_under_connected_clients(self, admin, filled, undo):
        filled.committed("g", "orders").clear()
        admin.offset.apply_reset(admin.offset.plan_reset("g", "orders", "earliest"), undo_path=undo)
        filled.connect("g", "c1", "orders")
        back = admin.offset.plan_reset("g", "orders", f"file:{undo}")
        assert back.items == []
        assert "cannot be removed while 1 clients are connected" in back.errors[0].message

    def test_it_is_written_before_anything_changes(self, admin, cluster, filled, undo):
        plan = admin.offset.plan_reset("g", "orders", "latest")
        with pytest.raises(ConfigError, match="File exists"):
            open(undo, "w").close()
            admin.offset.apply_reset(plan, undo_path=undo)
        assert not cluster.asked(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)

    def test_a_file_is_recognised_by_its_name(self, admin, filled, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        plan = admin.offset.plan_reset("g", "orders", "latest", queue_id=0)
        path = admin.offset.apply_reset(plan).undo_path
        assert path.startswith("offset-undo-g-orders-")
        saved = json.loads((tmp_path / path).read_text())
        assert saved["schema"] == "mqadmin.offsets/1"
        assert saved["offsets"] == [
            {"topic": "orders", "brokerName": "broker-a", "queueId": 0, "consumerOffset": 5}
        ]

    def test_export_is_the_same_format(self, admin, filled, tmp_path):
        path = str(tmp_path / "all.json")
        assert len(admin.offset.export("g", path).items) == 4
        plan = admin.offset.plan_reset("g", "orders", f"file:{path}")
        assert plan.empty


def test_show(admin, filled) -> None:
    rows = [
        (r.queue_id, r.min_offset, r.max_offset, r.consumer_offset, r.state)
        for r in admin.offset.show("g").items
    ]
    assert rows == [
        (0, 2, 10, 5, "ok"),
        (1, 0, 3, 1, "ok"),
        (2, 0, 0, None, "noOffset"),
        (3, 0, 0, None, "noOffset"),
    ]


def test_a_broker_that_hides_its_configuration_is_an_error(admin, filled) -> None:
    filled.refuse(RequestCode.GET_BROKER_CONFIG, ResponseCode.NO_PERMISSION, "no")
    plan = admin.offset.plan_reset("g", "orders", "latest")
    assert not plan.items
    assert [error.request_code for error in plan.errors] == [26]
