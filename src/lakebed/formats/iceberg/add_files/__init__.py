"""Files that lie somewhere already, added to a table as they are."""
