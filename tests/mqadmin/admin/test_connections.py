"""The clients of a group, merged over the brokers."""

from mqadmin.admin.connections import consumer_connections


def test_clients_of_all_brokers_are_merged(admin, broker_a, broker_b):
    broker_a.connect("g", "c1", "orders")
    broker_b.connect("g", "c1", "orders")
    broker_b.connect("g", "c2", "orders", "bills")
    found = consumer_connections(admin, "g")
    assert [(c.client_id, c.brokers) for c in found.connections] == [
        ("c1", ["broker-a", "broker-b"]),
        ("c2", ["broker-b"]),
    ]
    assert [s.topic for s in found.subscriptions] == ["bills", "orders"]
    assert found.connections[0].version == "V5_3_3"
    assert found.consume_type == "CONSUME_PASSIVELY"


def test_being_offline_is_not_an_error(admin):
    found = consumer_connections(admin, "g")
    assert (found.connections, found.errors) == ([], [])


def test_a_dead_broker_is_an_error(admin, broker_b):
    broker_b.down = True
    assert [error.target for error in consumer_connections(admin, "g").errors] == ["broker-b"]
