"""Reading: plans of snapshots, appends and changes, tasks that read data files, and streams."""
