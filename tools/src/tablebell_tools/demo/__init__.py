"""`make demo`: one reservation, and how it reaches everyone."""
