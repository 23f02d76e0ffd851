"""Message filters: SQL92 over properties, and the Bloom filter of SQL92 groups.

Duty: compile the expression of a subscription to a function that decides whether a message
matches. No I/O: the package reads neither queues nor records.

Theory of operation: a tag expression becomes a set of 32-bit hashes
(:func:`broker.common.subscription.build_subscription`), compared with the tag code of a
ConsumeQueue unit; the client also compares the text, because hashes collide. An SQL92 expression is
parsed once, by a Pratt parser, into nested closures over the property map. It has three truth
values, and only TRUE matches. No part of it is evaluated as Python code.

Limits: expression length and nesting (``sql92.MAX_EXPRESSION_LENGTH``, ``sql92.MAX_DEPTH``).

Sources: RocketMQ modules ``filter`` (SelectorParser, ComparisonExpression, BloomFilter) and
``common.filter`` (FilterAPI), ``broker.filter`` (ExpressionMessageFilter).
"""
