"""Partitions: who of the replicas works on what."""

from tablebell.partitions.assignment import PARTITIONS
from tablebell.partitions.partitions import Partitions

__all__ = ["PARTITIONS", "Partitions"]
