"""Test support: a database per test, a RabbitMQ vhost per test, and the servers themselves to stop and start."""

from tablebell.testing.database import Database
from tablebell.testing.outbox_rows import append_rows
from tablebell.testing.plans import plan
from tablebell.testing.ports import free_port
from tablebell.testing.servers import Servers
from tablebell.testing.virtual_address import VirtualAddress
from tablebell.testing.waiting import eventually

__all__ = ["Database", "Servers", "VirtualAddress", "append_rows", "eventually", "free_port", "plan"]
