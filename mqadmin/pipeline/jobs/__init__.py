"""The functions of the jobs, one module each; ``mqadmin.pipeline.declarations`` describes them.

``run`` takes the :class:`~mqadmin.pipeline.inputs.Inputs` of a run and returns one DataFrame per
table. The other functions take and return DataFrames, for notebooks and other programs::

    from mqadmin.pipeline.jobs.traffic import traffic

    traffic(spark.read.format("rocketmq-store").load("/data/store"), by=["topic", "tag"]).show()
"""
