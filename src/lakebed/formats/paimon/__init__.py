"""Apache Paimon: schemas, snapshots, manifests, buckets, sorted runs."""
