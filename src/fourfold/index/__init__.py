"""Keyword and vector indexes of one namespace: published segments in files, and a tail in memory. No SQL.

A segment holds the items as of some change (`text_index`, `vector_index`); the tail holds the changes since
(`log_tail`). Both are searched together (`text_index`, `vector_index`), with exact scores (`rows`). `publish` writes
a new generation of segment files under a manifest (`segment_files`). `log_tail` has the protocols to read items by.
"""
