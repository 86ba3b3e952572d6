"""`make demo`: shows how one reservation reaches everyone."""
