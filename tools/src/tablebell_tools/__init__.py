"""What operators and developers run against a system: audit, republish, demo, tokens, tests and the bench."""
