"""Paimon's system tables, with the names, columns and types that its engine gives them."""
