"""The schema: one history of migrations for the one database."""
