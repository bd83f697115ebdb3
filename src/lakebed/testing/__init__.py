"""Public tools for testing lakebed, and programs that use it.

`faults` has a store that fails on command, and the check that a crash at any point leaves the old or the new state.
`strategies` makes Arrow data for hypothesis. `conformance` has one test suite per verb, which each format subclasses.
`hudi_log` writes blocks of Hudi log files. `faults` needs nothing but lakebed, `strategies` needs hypothesis, and
`conformance` needs pytest.
"""
