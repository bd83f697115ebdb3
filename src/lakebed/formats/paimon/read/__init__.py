"""Reading: the plan of a snapshot, and the rows of one split merged on read."""
