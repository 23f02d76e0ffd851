"""Output forms that need a library: CSV, YAML and Markdown, imported when they are asked for.

Each has ``write_rows`` and ``write_one`` with the signatures of ``mqadmin.output.emit``.
"""
