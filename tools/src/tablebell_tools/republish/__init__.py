"""Publishes events again, from L0 or from the queue of dead messages."""
