"""The HTTP side: reservations, the inbox, preferences and the operators' view."""
