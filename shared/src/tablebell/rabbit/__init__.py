"""RabbitMQ: a connection that reconnects, publishing with confirms, consuming with the ack after the commit."""

from tablebell.rabbit.connection import Broker, BrokerUnavailable, open_broker
from tablebell.rabbit.consumer import Consumer, Recovery
from tablebell.rabbit.publisher import Confirmed, OutgoingMessage, Publisher, PublishOutcome, Rejected, Unreachable
from tablebell.rabbit.received_message import Handled, HandlingResult, Poison, ReceivedMessage

__all__ = [
    "Broker",
    "BrokerUnavailable",
    "Confirmed",
    "Consumer",
    "Handled",
    "HandlingResult",
    "OutgoingMessage",
    "Poison",
    "PublishOutcome",
    "Publisher",
    "ReceivedMessage",
    "Recovery",
    "Rejected",
    "Unreachable",
    "open_broker",
]
