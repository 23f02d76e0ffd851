"""Message filters: tags by hash, SQL92 over properties, and the Bloom filter beside them.

Duty: turn the expression of a subscription into a function that says whether a message
matches. Pure: nothing here reads a queue or a record.

Theory of operation: a tag expression becomes a set of 32-bit hashes, compared with the tag code
of a ConsumeQueue unit (the client compares the text again: hashes collide). An SQL92
expression is parsed once, by a Pratt parser, into nested closures over the property map; it knows
three truth values, and only TRUE matches. Nothing of it is ever evaluated as Python.

Limits: expression length and nesting (``sql92.MAX_EXPRESSION_LENGTH``, ``sql92.MAX_DEPTH``).

Sources: RocketMQ modules ``filter`` (SelectorParser, ComparisonExpression, BloomFilter) and
``common.filter`` (FilterAPI), ``broker.filter`` (ExpressionMessageFilter).
"""
