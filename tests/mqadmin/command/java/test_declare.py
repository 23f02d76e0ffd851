from importlib import import_module

from mqadmin.command.java.declare import COMMANDS
from mqadmin.command.java.names import JAVA_NAMES


def test_every_name_with_a_module_is_declared_there() -> None:
    for row in JAVA_NAMES.values():
        if row.module:
            import_module(f"mqadmin.command.java.{row.module}")
            assert row.name in COMMANDS, row.name


def test_a_command_that_changes_something_is_declared_so() -> None:
    import_module("mqadmin.command.java.cluster.topic_change")
    import_module("mqadmin.command.java.cluster.topic")
    assert COMMANDS["updateTopic"].changes
    assert not COMMANDS["topicRoute"].changes
