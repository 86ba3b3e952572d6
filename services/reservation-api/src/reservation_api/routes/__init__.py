"""The routes: user types, parameters and responses. The use cases are in the parent package."""
