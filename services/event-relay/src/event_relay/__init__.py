"""Publishes the events of L0 to RabbitMQ, in order per reservation."""
