"""The audit of a live system: every row of one level has its rows in the next. Reads only the database."""
