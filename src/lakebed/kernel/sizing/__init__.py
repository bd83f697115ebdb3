"""File sizing: staged rows by bucket become files of the right number and size."""
