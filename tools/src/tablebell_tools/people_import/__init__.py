"""`make import`: imports people from a CSV file, as the API does."""
