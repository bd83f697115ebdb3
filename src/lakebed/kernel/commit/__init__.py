"""The retry loop of a commit, its conflict outcomes, and its callbacks."""
