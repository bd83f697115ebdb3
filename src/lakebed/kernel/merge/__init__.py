"""Merging sorted or keyed Arrow batches; which row wins is a policy passed in."""
