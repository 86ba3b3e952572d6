"""The rules of reservations. Pure: no database, no HTTP."""
