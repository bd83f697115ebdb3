"""A table leads no verb out of its folder: fields of its files by hostile values by verbs, for every format.

`documents.py` finds every text in a file of a table and puts another one in its place, `tables.py` makes the tables,
`verbs.py` has what is done with them, `watched.py` sees what the process touches. `test_confinement.py` runs a part
that meets each field, value and verb; `python -m tests.confinement [FORMAT]` runs them all.
"""
