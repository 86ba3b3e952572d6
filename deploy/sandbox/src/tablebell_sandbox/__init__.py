"""Simulates the providers of all channels for demos and tests."""
