"""The HTTP API: routes by subject over one dispatcher, described by OpenAPI."""
