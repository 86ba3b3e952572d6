"""The check of the dependencies in uv.lock, without a network, and the software bill of materials."""
