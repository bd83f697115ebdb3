"""Commits: the kinds of commit, the loop that retries them, one attempt, its conflicts and its summary."""
