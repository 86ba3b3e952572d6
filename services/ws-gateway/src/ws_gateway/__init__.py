"""Delivers notifications to browsers over WebSockets."""
