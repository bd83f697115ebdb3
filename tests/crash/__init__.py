"""What a crash at any moment leaves behind: the old state or the new one."""
