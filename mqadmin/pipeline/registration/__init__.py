"""Modules that Spark finds by itself.

At the first use of a format it does not know, Spark imports every top-level module whose name
begins with ``pyspark_`` and registers its class ``DefaultSource``. The modules here are installed
at the top level (pyproject.toml, ``force-include``), so that
``spark.read.format("rocketmq-store")`` works in any session of that Python: notebooks,
spark-submit, SQL, Spark Connect. One format per module.

They import no more than the class: discovery imports all of them.
"""
