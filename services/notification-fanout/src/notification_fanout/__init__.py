"""Turns one event into a notification per person, and each into its channels."""
