"""The shared kernel: wire contracts, connections, the outbox, logs and lifecycle."""
