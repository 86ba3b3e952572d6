"""SMTP for the e-mail channel: message building, pipelined connections, their pool, and the rules for replies."""
