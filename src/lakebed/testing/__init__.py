"""What a test of lakebed, or of a program on it, can build on. Public.

`faults` is a store that fails on command and the check that every crash leaves the old or the new state; `strategies`
makes Arrow data for hypothesis; `conformance` holds one suite a verb, to be subclassed by each format.
`faults` needs nothing beyond lakebed, `strategies` needs hypothesis and `conformance` needs pytest.
"""
