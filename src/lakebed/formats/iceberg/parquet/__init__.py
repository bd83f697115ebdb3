"""Operations on Parquet files that Arrow does not have: joining without decoding, checking pages, logical types."""
