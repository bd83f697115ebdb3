"""Committing: the kinds of commit, the loop that retries them, one attempt, conflicts and the summary."""
