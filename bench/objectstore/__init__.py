"""The parts of `./run bench object-store`: the server, the tables, what lakebed does with them, and the peers."""
