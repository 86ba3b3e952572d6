"""Brings notifications live into the browser."""
