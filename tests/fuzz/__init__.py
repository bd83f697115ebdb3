"""Coverage-guided fuzzing of every codec, and the corpus of inputs that once failed.

`./run fuzz --minutes M [CODEC]` runs it; `targets.py` is the table of what is fuzzed, `bounds.py` that of the time and
memory that each may take.
"""
