"""Importers: files of other tools become items and relations. `formats` lists the modules, one per format."""
