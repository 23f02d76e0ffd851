"""The one door to the screen: what a command prints, and in which form.

Duty
    Turn values into ``table``, ``wide``, ``json``, ``ndjson``, ``yaml`` or ``csv`` on stdout, into
    a JSON schema on request, and errors into two lines or one object on stderr. Nobody else in
    ``mqadmin`` writes to the screen.

Theory of operation
    A command names a :class:`~mqadmin.output.view.View` (schema name, row type, columns) and hands
    over rows: ``msgspec`` structs or plain mappings with RocketMQ's camelCase names. Rows may be a
    generator: all forms are written row by row as they come; a table looks
    at the first ``TABLE_WINDOW`` rows to find the widths and then streams too. Each field named
    ``…Timestamp`` (epoch milliseconds) gets an RFC 3339 twin named ``…Time``. An absent value is
    ``null`` in JSON and ``-`` in a table, never 0. Rich is imported only when a table is drawn on a
    terminal; otherwise no cell is ever cut.

Limits
    ``TABLE_WINDOW`` rows are held in memory for a table, nothing for the other forms.

Sources
    The output contract is the project's own; camelCase field names are RocketMQ's.
"""
