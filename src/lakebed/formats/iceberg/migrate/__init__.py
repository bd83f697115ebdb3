"""Tables made of folders of files, which stay where they are."""
