"""Apache Iceberg: metadata files, snapshots, manifests, data files and delete files; format versions 1 to 3."""
