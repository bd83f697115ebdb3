"""Tables that tests make and write to: hudi."""
