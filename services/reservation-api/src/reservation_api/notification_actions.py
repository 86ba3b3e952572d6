"""Actions on a notification. On a shared notification, the first answer counts for all staff.

The reservation is locked before the first action is looked up. So among any number of concurrent requests, to this
route or to the reservation's own, exactly one is first and the others get 409 with its actor. DISMISSED is no answer:
it hides the notification for its owner, and nobody else.
"""

from datetime import datetime

from pydantic import ConfigDict, model_validator

from reservation_api import store
from reservation_api.domain.reservation import GUEST_ACTS, STAFF_ACTS, Act, Action
from reservation_api.event_factory import notification_event
from reservation_api.inbox import view
from reservation_api.people import Person, find_person
from reservation_api.problem import Problem, ProblemType, not_found
from reservation_api.reservation_commands import ReservationCommands
from reservation_api.schemas import Body, Moment
from reservation_api.transaction import in_transaction
from reservation_api.transition import LockedReservation, already_handled, withdraw_shared
from tablebell.events import EventType, NotificationData
from tablebell.inbox import NotificationView, is_proposal
from tablebell.outbox import Level
from tablebell.postgres import Connection, Pool
from tablebell.tokens import Identity
from tablebell.wakeups import WakeupSender


class Response(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"actionType": "CONFIRMED"},
                {"actionType": "POSTPONED", "proposedTime": "2027-11-14T21:30:00"},
            ]
        }
    )

    action_type: Action
    proposed_time: Moment | None = None

    @model_validator(mode="after")
    def has_a_proposed_time_if_postponed(self) -> "Response":
        if (self.action_type is Action.POSTPONED) != (self.proposed_time is not None):
            raise ValueError("proposedTime is required for POSTPONED and not allowed otherwise")
        return self


class ActionAnswer(NotificationView):
    undo_seconds: float | None = None
    """How long staff can undo the decision with `/restaurant/reservation/{id}/undo`; null if they cannot."""


class NotificationActions:
    def __init__(self, pool: Pool, commands: ReservationCommands, wakeup_sender: WakeupSender) -> None:
        self._pool = pool
        self._commands = commands
        self._wakeup_sender = wakeup_sender

    async def respond(self, identity: Identity, notification_id: int, response: Response) -> ActionAnswer:
        done: Act | None = None

        async def work(connection: Connection) -> NotificationView:
            nonlocal done
            person = await find_person(connection, identity)
            notification = await store.find_notification(connection, *person.key, notification_id)
            if notification is None:
                raise not_found("notification")
            locked = await self._commands.lock(connection, notification["reservation_id"])
            done = await self._act(locked, person, notification, response)
            answered = await store.find_notification(connection, *person.key, notification_id)
            if answered is None:
                raise not_found("notification")
            return view(answered)

        answer = await in_transaction(self._pool, work)
        if done is not None:
            self._commands.on_committed(done)
        else:
            self._wakeup_sender.announce(Level.EVENT)
        return ActionAnswer.model_construct(**dict(answer), undo_seconds=self._commands.undo_seconds(done))

    async def _act(
        self, locked: LockedReservation, person: Person, notification: store.Row, response: Response
    ) -> Act | None:
        act = _act_for(notification, response.action_type)
        is_shared = notification["shared_read"]
        if act is None and response.action_type not in {Action.DISMISSED, Action.CUSTOM}:
            raise Problem(ProblemType.NOT_POSSIBLE_NOW, f"{response.action_type} is not possible on this notification.")
        if act is None and (not is_shared or response.action_type is Action.DISMISSED):
            if not await store.has_acted(locked.connection, locked.id, notification["id"], response.action_type):
                await _record(locked, person, notification, response.action_type)
            return None
        first = await store.find_first_action(locked.connection, locked.id, notification["aggregate_version"])
        if first is not None:
            raise already_handled(first)
        if act is None:
            await _resolve(locked, person, notification, response.action_type)
            return None
        if locked.reservation.version != notification["aggregate_version"]:
            raise Problem(ProblemType.NOT_POSSIBLE_NOW, "The reservation has changed since this notification.")
        desired = await self._commands.proposal(locked, response.proposed_time)
        via = (notification["event_notification_id"], notification["id"])
        await locked.act(act, person, via=via, undo=self._commands.undo_window(act), **desired)
        return act


def _act_for(notification: store.Row, action: Action) -> Act | None:
    if notification["shared_read"]:
        return STAFF_ACTS.get(action)
    if is_proposal(notification["event_type"], notification["audience"]):
        return GUEST_ACTS.get(action)
    return None


async def _record(locked: LockedReservation, person: Person, notification: store.Row, action: Action) -> None:
    """Record an action that concerns its actor alone. If it hides the notification, it does so in all of their tabs."""
    at = await _append_action(locked, person, notification, action, decides=False)
    if action is Action.DISMISSED:
        data = NotificationData(
            audience=person.audience,
            actor=person.actor,
            action=action,
            event_notification_id=notification["event_notification_id"],
            notification_ids=[notification["id"]],
            at=at,
        )
        event = notification_event(EventType.NOTIFICATION_DISMISSED, notification["event_notification_id"], data)
        await store.append_events(locked.connection, [event])


async def _resolve(locked: LockedReservation, person: Person, notification: store.Row, action: Action) -> None:
    """Resolve a shared notification for all staff. The reservation is unchanged and can still be decided on."""
    shared = await store.lock_shared_notifications(
        locked.connection, locked.id, notification["aggregate_version"], *person.key
    )
    at = await _append_action(locked, person, notification, action, decides=True)
    await withdraw_shared(locked.connection, shared, f"handled by {person.name} ({action})")
    data = NotificationData(
        audience=person.audience,
        actor=person.actor,
        action=action,
        event_notification_id=notification["event_notification_id"],
        shared=True,
        at=at,
    )
    event = notification_event(EventType.NOTIFICATION_RESOLVED, notification["event_notification_id"], data)
    await store.append_events(locked.connection, [event])


async def _append_action(
    locked: LockedReservation, person: Person, notification: store.Row, action: Action, *, decides: bool
) -> datetime:
    return await store.append_action(
        locked.connection,
        event_notification_id=notification["event_notification_id"],
        notification_id=notification["id"],
        reservation_id=locked.id,
        version=notification["aggregate_version"],
        resulting_version=None,
        actor=person.key,
        action=action,
        outcome=None,
        decides=decides,
    )
