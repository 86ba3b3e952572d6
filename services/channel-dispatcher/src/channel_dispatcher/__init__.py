"""Sends the rows of L2 through their channels."""
