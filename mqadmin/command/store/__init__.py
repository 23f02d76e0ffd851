"""``mqadmin store``: one module per verb or per kind of file."""
