"""Tags of a branch: given and taken by name, made automatically, and ended by their time to live."""
