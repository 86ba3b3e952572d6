"""Puts a separate system under load and faults, then checks that nothing was lost, reordered or duplicated."""
