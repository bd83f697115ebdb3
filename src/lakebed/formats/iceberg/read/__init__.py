"""Reading: the plan of a snapshot, the live rows of one data file, changes and streams."""
