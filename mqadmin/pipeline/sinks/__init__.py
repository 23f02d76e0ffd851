"""Writing the results of jobs: tables, Parquet, plots; atomically, one writer per directory."""
