"""Sign-in by e-mail link, and the sessions that follow from it."""
