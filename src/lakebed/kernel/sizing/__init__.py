"""File sizing: turn rows that tasks staged by bucket into files of the right number and size."""
