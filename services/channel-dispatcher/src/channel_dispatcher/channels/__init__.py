"""The channels: a module each, and one line each in `registry`."""
