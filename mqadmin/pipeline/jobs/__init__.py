"""The jobs, a module each: its declaration and its functions over DataFrames.

A module imports Spark inside its functions: the declarations are read where there is none. ``run``
takes the run's :class:`~mqadmin.pipeline.inputs.Inputs` and gives a DataFrame per table; the other
functions take and give DataFrames, for notebooks and programs of one's own::

    from mqadmin.pipeline.jobs.traffic import traffic

    traffic(spark.read.format("rocketmq-store").load("/data/store"), by=["topic", "tag"]).show()
"""
