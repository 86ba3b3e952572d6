"""One channel's worker: claim, send, hand the outcome to the recorder.

No database connection is held while a provider is asked, and no send waits for another: rows are claimed as room
becomes free, and each is answered for by itself. Room is what the breaker and the limits leave.

A send begins only while its lease is known to last: what a stalled process held belongs to others by then.

Leases also end while the database is away, since nobody can renew them. A dispatcher takes over leases that have ended
only after some time of uninterrupted contact with the database: the holders renew and record within a second.
"""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from datetime import timedelta
from typing import Protocol, assert_never

import structlog

from channel_dispatcher import store
from channel_dispatcher.breaker import Breaker, State
from channel_dispatcher.claim_isolation import bury_refused_rows
from channel_dispatcher.delivery import Delivery, LeasedDelivery, lease_end
from channel_dispatcher.limits import Limits, RateLimiter
from channel_dispatcher.metrics import IN_FLIGHT, OUTCOMES, PROVIDER_SECONDS
from channel_dispatcher.outcome import NotTried, ProviderDown, RetryLater, SendOutcome, Sent, Throttled, Undeliverable
from channel_dispatcher.recorder import RETRY_SECONDS, Recorder
from channel_dispatcher.settlement import settle
from channel_dispatcher.suspects import Finding, Suspects
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outage import OUTAGES, describe
from tablebell.people import Channel
from tablebell.postgres import Pool
from tablebell.retry import RetryPolicy
from tablebell.tracing import SpanKind, annotate, spanned
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

# A pause begins when it is recorded, a moment after it was decided on: a wake-up before its end would find nothing.
WAKE_MARGIN = 0.15
WAKE_TICK = 0.1
# How long a send takes is known as a moving average, of which one send is a twentieth.
FIRST_GUESS = 0.1
WEIGHT_OF_ONE = 0.05
# Shares of the lease: how long a dispatcher is in contact with the database before it takes over what others let end,
# and after which time without a claim it cannot know that there was no outage in between.
TAKEOVER_SHARE = 1 / 6
CONTACT_SHARE = 1 / 2
# What concerns one row only. Outages are told once for all by the breaker, and what was sent is in the table.
WORTH_TELLING = {"RETRY", "UNDELIVERABLE", "EXHAUSTED"}


class Sender(Protocol):
    """A channel: takes a message to its provider and says what became of it. Never raises for what a provider does."""

    async def send(self, delivery: Delivery) -> SendOutcome: ...


class Dispatcher:
    def __init__(
        self,
        channel: Channel,
        sender: Sender,
        *,
        pool: Pool,
        recorder: Recorder,
        breaker: Breaker,
        suspects: Suspects,
        limits: Limits,
        policy: RetryPolicy,
        wakeup: Wakeup,
        lease: timedelta,
        batch_size: int,
        stop: Stop,
        shared_address: bool = False,
    ) -> None:
        """`shared_address`: all messages go to one address, so that they are told apart by their rows."""
        self.channel = channel
        self.breaker = breaker
        self._sender = sender
        self._pool = pool
        self._recorder = recorder
        self._limits = limits
        self._policy = policy
        self._wakeup = wakeup
        self._lease = lease
        self._batch_size = batch_size
        self._stop = stop
        self._suspects = suspects
        self._shared_address = shared_address
        self._calls = 0
        self._pace = RateLimiter(limits.per_second, time.monotonic)
        self._in_hand: dict[int, LeasedDelivery] = {}
        self._waiting: asyncio.Queue[Delivery] = asyncio.Queue()
        self._after = 0
        self._more = False
        self._send_seconds = FIRST_GUESS
        self._provider_seconds = PROVIDER_SECONDS.labels(channel)
        self._wakes: set[int] = set()
        # On the monotonic clock.
        self._contact_at = -math.inf
        self._contact_since = 0.0
        recorder.on_unblocked(channel, wakeup.now)
        IN_FLIGHT.labels(channel).set_function(lambda: len(self._in_hand))

    async def run(self, poll_seconds: float) -> None:
        """Until the stop; returns when everything in hand is answered for."""
        async with asyncio.TaskGroup() as tasks:
            slots = [
                tasks.create_task(self._send(), name=f"{self.channel}-{n}") for n in range(self._limits.concurrency)
            ]
            await keep_running(f"dispatcher-{self.channel}", self.run_once, self._wakeup, poll_seconds, self._stop)
            await self._waiting.join()
            for slot in slots:
                slot.cancel()

    async def run_once(self) -> bool:
        """Claim what there is room for and start to send it. True when there is room for more, and more to do."""
        room = self._room()
        if room <= 0:
            self._more = True  # for all we know: whoever makes room looks
            return False
        if self._recorder.interrupted:
            # Rows whose result waits to be written may look abandoned by now: they must not be claimed again.
            self._wake_in(RETRY_SECONDS)
            return False
        asked_at = time.monotonic()
        claim = await self._claim(min(room, self._batch_size), asked_at)
        self._after, self._more = claim.reached, claim.more
        for outcome, count in claim.settled.items():
            OUTCOMES.labels(self.channel, outcome.lower()).inc(count)
        for delivery in claim.deliveries:
            self._in_hand[delivery.attempt_id] = LeasedDelivery(delivery, lease_end(asked_at, self._lease))
            self._waiting.put_nowait(delivery)
        return self._more and self._room() > 0

    @property
    def in_flight(self) -> Collection[Delivery]:
        return [held.delivery for held in self._in_hand.values()]

    def renewed(self, asked: Iterable[Delivery], ours: Collection[int], until: float) -> None:
        """The leases of `ours` (ids) last longer; those of the others have passed on, and what has not been sent yet
        will not be."""
        for delivery in asked:
            held = self._in_hand.get(delivery.attempt_id)
            if held is not None and delivery.id in ours:
                held.until = until
            elif held is not None:
                del self._in_hand[delivery.attempt_id]

    async def _claim(self, limit: int, asked_at: float) -> store.Claim:
        try:
            claim = await store.claim_fair(
                self._pool,
                self.channel,
                limit=limit,
                lease=self._lease,
                after=self._after,
                max_attempts=self._policy.max_attempts,
                takes_over=self._takes_over(asked_at),
            )
        except OUTAGES:
            self._contact_at = -math.inf
            raise
        except Exception as error:
            log.exception("claim_failed", channel=self.channel)
            await bury_refused_rows(self._pool, self.channel, error)
            return store.Claim([], Counter(), self._after, more=True)
        self._contact_at = asked_at
        return claim

    def _takes_over(self, now: float) -> bool:
        lease = self._lease.total_seconds()
        if now - self._contact_at > lease * CONTACT_SHARE:
            self._contact_since = now
        left = self._contact_since + lease * TAKEOVER_SHARE - now
        if left > 0:
            self._wake_in(left)
        return left <= 0

    def _room(self) -> int:
        """Nothing while much is in hand, so that claims are few and large; a row when only one is allowed."""
        allowance = self.breaker.allowance(self._limits.concurrency)
        window = self._limits.window(allowance, self._send_seconds)
        held = len(self._in_hand)
        if window == 0 and (change := self.breaker.next_change) is not None:
            self._wake_in(change)
        return 0 if held > 2 * window // 3 else window - held

    async def _send(self) -> None:
        """One of the channel's slots: one send after the other."""
        while True:
            delivery = await self._waiting.get()
            await self._pace.turn()
            if (held := self._in_hand.get(delivery.attempt_id)) is not None:
                with spanned(f"send {self.channel}", delivery.headers, SpanKind.CLIENT):
                    self._settle(delivery, await self._attempt(held))
            self._waiting.task_done()
            if self._more and self._room() > 0:
                self._wakeup.now()

    def _settle(self, delivery: Delivery, outcome: SendOutcome) -> None:
        outcome = self._judge(delivery, outcome)
        cool_down = timedelta(seconds=self.breaker.cool_down)
        settlement = settle(delivery, outcome, self._policy, cool_down, self._suspects.hold_back(delivery.id))
        self._in_hand.pop(delivery.attempt_id, None)
        self._recorder.add(self.channel, settlement)
        annotate(failed=not isinstance(outcome, Sent), result=settlement.result, attempt=delivery.attempt)
        if settlement.pause:
            self._wake_in(settlement.pause.total_seconds())
        alone = settlement.result == "DOWN" and self.breaker.state is State.CLOSED
        tell = log.info if alone or settlement.result in WORTH_TELLING else log.debug
        tell(
            "delivery_settled",
            channel=self.channel,
            channel_send_id=delivery.id,
            correlation_id=delivery.headers.get("correlation_id"),
            attempt=delivery.attempt,
            result=settlement.result,
            error=settlement.error,
        )

    async def _attempt(self, held: LeasedDelivery) -> SendOutcome:
        delivery = held.delivery
        if self._stop.requested:
            return NotTried("the service is stopping")
        if time.monotonic() >= held.until:
            return NotTried("its lease has ended")
        state = self.breaker.state
        if state in (State.OPEN, State.THROTTLED):
            return NotTried(f"the channel is {state}")
        if state is State.HALF_OPEN and self._calls:
            self._more = True
            return NotTried("another message probes the provider")
        started = time.monotonic()
        self._calls += 1
        try:
            return await self._sender.send(delivery)
        except Exception as error:  # one bad row must not end the others' deliveries
            correlation_id = delivery.headers.get("correlation_id")
            log.exception(
                "send_failed", channel=self.channel, channel_send_id=delivery.id, correlation_id=correlation_id
            )
            return RetryLater(describe(error), answered=False)
        finally:
            self._calls -= 1
            seconds = time.monotonic() - started
            self._send_seconds += (seconds - self._send_seconds) * WEIGHT_OF_ONE
            self._provider_seconds.observe(seconds)

    def _judge(self, delivery: Delivery, outcome: SendOutcome) -> SendOutcome:
        """Tells the breaker. Returns the outcome; of a failure that is the row's own, one that costs an attempt."""
        match outcome:
            case Sent() | RetryLater(answered=True) | Undeliverable(answered=True):
                self._suspects.answered(delivery.id, is_proof=self.breaker.answered())
            case Throttled(reason, after):
                is_proof = self.breaker.throttled(self._target(delivery), after.total_seconds())
                self._suspects.answered(delivery.id, is_proof=is_proof)
                log.warning("provider_throttles", channel=self.channel, error=reason, seconds=after.total_seconds())
            case ProviderDown():
                return self._blame(delivery, outcome)
            case RetryLater() | Undeliverable() | NotTried():
                pass  # the provider was not asked
            case _:
                assert_never(outcome)
        return outcome

    def _blame(self, delivery: Delivery, outcome: ProviderDown) -> SendOutcome:
        finding = self._suspects.failed(delivery.id, certain=outcome.certain)
        is_evidence = finding is Finding.EVIDENCE
        if is_evidence and self.breaker.unreachable(self._target(delivery), certain=outcome.certain):
            self._wake_in(self.breaker.cool_down)
            tell = log.critical if outcome.needs_operator else log.error
            event = "provider_refuses_us" if outcome.needs_operator else "provider_down"
            tell(event, channel=self.channel, error=outcome.reason, probe_in=self.breaker.cool_down)
        if self.breaker.state is State.OPEN:
            self._suspects.outage()  # also of what was in flight when it opened
        return RetryLater(outcome.reason, outcome.after, answered=False) if finding is Finding.OWN else outcome

    def _target(self, delivery: Delivery) -> Hashable:
        return delivery.id if self._shared_address else delivery.recipient

    def _wake_in(self, seconds: float) -> None:
        """One timer serves all that is due within the same tenth of a second."""
        loop = asyncio.get_running_loop()
        tick = math.ceil((loop.time() + seconds + WAKE_MARGIN) / WAKE_TICK)
        if tick not in self._wakes:
            self._wakes.add(tick)
            loop.call_at(tick * WAKE_TICK, self._wake, tick)

    def _wake(self, tick: int) -> None:
        self._wakes.discard(tick)
        self._wakeup.now()
