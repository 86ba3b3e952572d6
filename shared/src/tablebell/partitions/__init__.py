"""Partitions: which replica works on which part of an outbox."""

from tablebell.partitions.assignment import PARTITIONS
from tablebell.partitions.partitions import Partitions

__all__ = ["PARTITIONS", "Partitions"]
