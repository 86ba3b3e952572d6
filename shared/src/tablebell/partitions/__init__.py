"""Partitions: who of the replicas works on what."""

from tablebell.partitions.partitions import Partitions
from tablebell.partitions.seating import PARTITIONS

__all__ = ["PARTITIONS", "Partitions"]
