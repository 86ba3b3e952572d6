"""Runs the whole system as local processes, without Docker."""
