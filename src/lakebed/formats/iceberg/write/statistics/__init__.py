"""The metrics of the columns of new data files, for their manifest entries."""
