"""The routes: who may, what is asked, what is answered. What is done is elsewhere."""
