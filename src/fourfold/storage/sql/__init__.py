"""Rows of the tables, written once for both databases over `dialect.Db`."""
