"""The version of this lakebed, as a value of the package: a shipped copy has no metadata of an installation."""

VERSION = "0.1.0"
