"""Folders of files as items: walking, reading, cutting into chunks, and keeping up with changes (S3.1)."""
