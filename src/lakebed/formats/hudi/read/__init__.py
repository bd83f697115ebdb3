"""Reading a Hudi table.

On the driver: `batch` and `stream` decide what a read gives; `plan` plans a snapshot, and `changes`, `cdc` and
`changelog` plan the three kinds of changes. On a worker: `task` reads one file slice, `change_task`, `cdc_task` and
`changelog` the changes; `files` reads base files, `log_blocks` and `log_reader` read logs.
"""
