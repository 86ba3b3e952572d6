"""`make preview`: every message of every kind, audience and language, as files with an index page."""
