"""Output of commands: forms, columns, errors; the only package that writes to the screen.

Duty
    Write values as ``table``, ``wide``, ``json``, ``ndjson``, ``yaml``, ``csv`` or ``markdown`` to
    stdout, a JSON schema on request, and errors as two lines or one object to stderr. No other
    package of ``mqadmin`` writes to stdout or stderr.

Theory of operation
    A command passes a :class:`~mqadmin.output.view.View` (schema name, row type, columns) and rows:
    ``msgspec`` structs or plain mappings with RocketMQ's camelCase names. Rows may be a generator:
    every form is written row by row; a table reads the first ``TABLE_WINDOW`` rows to compute the
    column widths and then streams too, ``markdown`` is drawn as many rows at a time. Each field
    named ``…Timestamp`` (epoch milliseconds) gets an RFC 3339 copy named ``…Time``. An absent value
    is ``null`` in JSON and ``-`` in a table, never 0. Rich is imported only when a table is drawn
    on a terminal; in a pipe or file no cell is cut.

Limits
    ``TABLE_WINDOW`` rows are kept in memory for tables; the other forms keep no rows.

Sources
    The output contract is specific to this project; camelCase field names are RocketMQ's.
"""
