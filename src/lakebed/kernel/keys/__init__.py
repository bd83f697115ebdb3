"""Key encoders and hashes on whole Arrow columns."""
