"""The tests: what each folder proves stands in CONTRIBUTING.md."""
