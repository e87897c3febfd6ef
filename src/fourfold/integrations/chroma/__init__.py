"""Hybrid search over a Chroma collection: vectors from Chroma, words, tags and links from a store (extra `chroma`)."""
