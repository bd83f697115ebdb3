"""Reading: plan the splits of a snapshot, then merge the rows of each split on read."""
