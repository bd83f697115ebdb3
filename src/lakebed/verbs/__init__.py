"""The verbs of a table, each as plan, do, commit: read, write, rewrite, expire, archive.

`table.py` is the face that every format's table has; the other modules hold each verb's protocol and its driver.
"""
