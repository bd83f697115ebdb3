"""What Arrow does not decide about Parquet files: which columns are worth a dictionary."""
