"""One suite a verb, run over every format; their matrix makes the support grid of the README."""
