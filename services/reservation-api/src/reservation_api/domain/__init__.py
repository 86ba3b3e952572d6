"""The rules of reservations, without a database or a web: pure, and tested as such."""
