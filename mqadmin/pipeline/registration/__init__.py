"""Modules by which Spark discovers the data sources.

When a format name is unknown, Spark imports every top-level module whose name starts with
``pyspark_`` and registers its class ``DefaultSource``. The modules of this package are installed at
the top level (pyproject.toml, ``force-include``), so ``spark.read.format("rocketmq-store")`` works
in any session of that Python: notebooks, spark-submit, SQL, Spark Connect. One format per module.

Such a session is started by PySpark and needs a Java in JAVA_HOME or PATH. Where only the packaged
Java is installed, ``mqadmin.pipeline.spark.java.java_home()`` returns a directory for JAVA_HOME.
"""
