"""What a Hudi table knows about itself, as tables. Hudi itself has procedures for this, such as show_commits."""
