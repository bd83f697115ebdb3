"""What can be done with a table, as the protocols that every format implements.

`table.py` is the public face of a table. `read.py`, `stream.py`, `write.py` and `two_phase.py` hold the protocol of
one verb each, with the code that drives it: plan on the driver, do in parallel tasks, commit on the driver.
`native_source.py` describes how a format's own Spark source reads. The verbs that maintain a table (rewrite, expire,
archive) have no protocol: each format runs its own and returns the results of `lakebed.model.upkeep`.
"""
