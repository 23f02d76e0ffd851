"""The declared shape of an output, and the result of a run apart from its rows."""

from mqadmin.output.view import Outcome, View


def test_a_schema_name_has_program_and_version() -> None:
    assert View("topic.list").schema == "mqadmin.topic.list/1"
    assert View("topic.list", version=3).schema == "mqadmin.topic.list/3"


def test_a_view_does_not_change_with_the_lists_it_was_declared_with() -> None:
    columns, wide, keep = ["topic"], ["topic", "perm"], ["perm"]
    view = View("topic.list", columns, wide=wide, keep=keep)
    columns.append("x")
    wide.clear()
    keep.append("y")
    assert view.columns == ("topic",)
    assert view.wide == ("topic", "perm")
    assert view.keep == {"perm"}


def test_errors_of_two_runs_are_never_mixed() -> None:
    """A generator adds errors while it runs: the list must be the outcome's own."""
    given: list[dict[str, object]] = [{"kind": "timeout"}]
    first, second = Outcome(errors=given), Outcome()
    first.errors.append({"kind": "refused"})
    assert given == [{"kind": "timeout"}]
    assert second.errors == []
    assert (second.truncated, second.asked, second.reason) == (False, False, "")
