"""RabbitMQ: a connection that comes back, publishing with confirms, consuming with the ack last."""

from tablebell.rabbit.connection import Broker, BrokerAway, open_broker
from tablebell.rabbit.consumer import Consumer, Recovery
from tablebell.rabbit.delivery import Delivery, Done, Poison, Verdict
from tablebell.rabbit.publisher import Confirmed, Outgoing, Publisher, PublishOutcome, Refused, Unreachable

__all__ = [
    "Broker",
    "BrokerAway",
    "Confirmed",
    "Consumer",
    "Delivery",
    "Done",
    "Outgoing",
    "Poison",
    "PublishOutcome",
    "Publisher",
    "Recovery",
    "Refused",
    "Unreachable",
    "Verdict",
    "open_broker",
]
