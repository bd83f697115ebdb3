"""Which version of a row wins in a file group, and the rules and ordering values that decide it."""
