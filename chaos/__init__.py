"""Load and faults on a system of its own: was anything lost, out of order or repeated for no reason?"""
