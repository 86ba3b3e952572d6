"""The channels: one module and one line in `registry` each."""
