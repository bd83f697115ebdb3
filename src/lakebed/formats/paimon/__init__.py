"""Apache Paimon tables: schemas, snapshots, manifests, buckets and sorted runs."""
