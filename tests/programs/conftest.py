"""The session and the table that the tests of `tests/spark` have too."""

from tests.spark.conftest import hudi, spark

__all__ = ["hudi", "spark"]
