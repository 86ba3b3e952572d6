"""SMTP: building a message, pipelined conversations, a pool of connections."""
