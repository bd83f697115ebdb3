"""Reading a Hudi table: the plan on the driver (`snapshot`, `changes`, `stream`), the task on a worker (`task`, with
`files` and `logs`)."""
