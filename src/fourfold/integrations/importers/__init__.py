"""Importers: what other tools have written becomes items and relations. One module per format, named in `formats`."""
