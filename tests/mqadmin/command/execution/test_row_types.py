"""The table of row types has exactly the views of the commands."""

from mqadmin.command.execution.row_types import ROW_TYPES, row_type
from mqadmin.command.framework.nouns import NOUNS, load_noun


def test_every_view_has_a_row_type_and_every_row_type_a_view() -> None:
    views = [
        view for name in NOUNS for verb in load_noun(name).verbs.values() for view in verb.views
    ]
    assert {view.name for view in views} == set(ROW_TYPES)
    assert all(row_type(view).__struct_fields__ for view in views)
