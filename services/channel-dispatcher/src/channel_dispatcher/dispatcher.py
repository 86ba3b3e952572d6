"""One channel's worker: claims rows, sends them, and passes each outcome to the recorder.

Invariants:
- No database connection is held during a call to a provider, and no send waits for another. Rows are claimed as
  capacity becomes free; the breaker and the limits determine the capacity.
- A send starts only while its lease is known to last. After a stall the row may belong to another process.
"""

import asyncio
import time
from collections.abc import Collection, Iterable
from datetime import timedelta

import structlog

from channel_dispatcher.attempt_record import build_record
from channel_dispatcher.breaker import State
from channel_dispatcher.channels.spec import Sender
from channel_dispatcher.claimer import Claimer
from channel_dispatcher.delivery import Delivery, InFlightDelivery, lease_end
from channel_dispatcher.limits import Limits, RateLimiter
from channel_dispatcher.metrics import IN_FLIGHT, OUTCOMES, PROVIDER_SECONDS
from channel_dispatcher.outcome import NotTried, RetryLater, SendOutcome, Sent
from channel_dispatcher.provider_health import ProviderHealth
from channel_dispatcher.recorder import RETRY_SECONDS, Recorder
from channel_dispatcher.sms_budget import SmsBudget
from channel_dispatcher.wakeup_timer import WakeupTimer
from tablebell.lifecycle import Stop
from tablebell.loop import keep_running
from tablebell.outage import describe
from tablebell.people import Channel
from tablebell.postgres import Pool
from tablebell.retry import RetryPolicy
from tablebell.tracing import SpanKind, annotate, spanned
from tablebell.wakeups import Wakeup

log = structlog.get_logger(__name__)

# The duration of a send is an exponential moving average, starting from a guess.
INITIAL_SEND_SECONDS = 0.1
SMOOTHING_FACTOR = 0.05
# Results logged at info level. The breaker logs an outage once for all rows, and sent rows are in the table.
INFO_RESULTS = {"RETRY", "UNDELIVERABLE", "EXHAUSTED"}


class Dispatcher:
    def __init__(
        self,
        channel: Channel,
        sender: Sender,
        *,
        pool: Pool,
        recorder: Recorder,
        health: ProviderHealth,
        limits: Limits,
        policy: RetryPolicy,
        wakeup: Wakeup,
        lease: timedelta,
        batch_size: int,
        stop: Stop,
    ) -> None:
        self.channel = channel
        self.breaker = health.breaker
        self._sender = sender
        self._recorder = recorder
        self._health = health
        self._limits = limits
        self._policy = policy
        self._wakeup = wakeup
        self._timer = WakeupTimer(wakeup)
        budget = SmsBudget(pool, limits.per_day) if limits.per_day else None
        self._claimer = Claimer(
            channel, pool, lease=lease, max_attempts=policy.max_attempts, timer=self._timer, budget=budget
        )
        self._lease = lease
        self._batch_size = batch_size
        self._stop = stop
        self._rate_limiter = RateLimiter(limits.per_second, time.monotonic)
        self._in_flight: dict[int, InFlightDelivery] = {}
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()
        self._calls = 0
        self._more = False
        self._send_seconds = INITIAL_SEND_SECONDS
        self._provider_seconds = PROVIDER_SECONDS.labels(channel)
        recorder.on_unblocked(channel, wakeup.now)
        recorder.on_recorded(channel, self._claim_if_possible)
        IN_FLIGHT.labels(channel).set_function(lambda: len(self._in_flight))

    async def run(self, poll_seconds: float) -> None:
        """Runs until the stop; returns when every row in flight has an outcome."""
        async with asyncio.TaskGroup() as tasks:
            slots = [
                tasks.create_task(self._run_slot(), name=f"{self.channel}-{n}") for n in range(self._limits.concurrency)
            ]
            await keep_running(f"dispatcher-{self.channel}", self.run_once, self._wakeup, poll_seconds, self._stop)
            await self._queue.join()
            for slot in slots:
                slot.cancel()

    async def run_once(self) -> bool:
        """Claims rows for the free capacity and queues them. True if there is more of both."""
        capacity = self._free_capacity()
        if capacity <= 0:
            self._more = True  # assumed: the slot that frees capacity starts another claim
            return False
        if self._recorder.interrupted:
            # Rows with unwritten results may have expired leases by now: do not claim them again.
            self._timer.wake_in(RETRY_SECONDS)
            return False
        claimed_at = time.monotonic()
        claim = await self._claimer.claim(min(capacity, self._batch_size), claimed_at)
        self._more = claim.more
        for outcome, count in claim.finished.items():
            OUTCOMES.labels(self.channel, outcome.lower()).inc(count)
        for delivery in claim.deliveries:
            self._in_flight[delivery.attempt_id] = InFlightDelivery(delivery, lease_end(claimed_at, self._lease))
            self._queue.put_nowait(delivery)
        return self._more and self._free_capacity() > 0

    @property
    def in_flight(self) -> Collection[Delivery]:
        return [each.delivery for each in self._in_flight.values()]

    def on_leases_extended(self, deliveries: Iterable[Delivery], extended: Collection[int], lease_until: float) -> None:
        """Sets the new end of the `extended` leases (row ids). The other leases are lost: their rows are not sent."""
        for delivery in deliveries:
            mine = self._in_flight.get(delivery.attempt_id)
            if mine is not None and delivery.id in extended:
                mine.lease_until = lease_until
            elif mine is not None:
                del self._in_flight[delivery.attempt_id]

    def _free_capacity(self) -> int:
        """How many rows to claim. 0 until a third of the window is free, so that claims are few and large."""
        allowance = self.breaker.allowance(self._limits.concurrency)
        window = self._limits.window(allowance, self._send_seconds)
        in_flight = len(self._in_flight) + self._recorder.count_unrecorded(self.channel)
        if window == 0 and (seconds := self.breaker.next_change) is not None:
            self._timer.wake_in(seconds)
        return 0 if in_flight > 2 * window // 3 else window - in_flight

    async def _run_slot(self) -> None:
        """One of the channel's concurrent slots: sends one row after another."""
        while True:
            delivery = await self._queue.get()
            await self._rate_limiter.acquire()
            if (mine := self._in_flight.get(delivery.attempt_id)) is not None:
                with spanned(f"send {self.channel}", delivery.headers, SpanKind.CLIENT):
                    self._finish(delivery, await self._attempt(mine))
            self._queue.task_done()
            self._claim_if_possible()

    def _claim_if_possible(self) -> None:
        if self._more and self._free_capacity() > 0:
            self._wakeup.now()

    async def _attempt(self, mine: InFlightDelivery) -> SendOutcome:
        delivery = mine.delivery
        if self._stop.requested:
            return NotTried("the service is stopping")
        if time.monotonic() >= mine.lease_until:
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
            self._send_seconds += (seconds - self._send_seconds) * SMOOTHING_FACTOR
            self._provider_seconds.observe(seconds)

    def _finish(self, delivery: Delivery, outcome: SendOutcome) -> None:
        outcome = self._health.assess(delivery, outcome)
        cool_down = timedelta(seconds=self.breaker.cool_down)
        extra_delay = self._health.attribution.extra_delay(delivery.id)
        record = build_record(delivery, outcome, self._policy, cool_down, extra_delay)
        self._in_flight.pop(delivery.attempt_id, None)
        self._recorder.add(self.channel, record)
        annotate(failed=not isinstance(outcome, Sent), result=record.result, attempt=delivery.attempt)
        for pause in (record.pause, cool_down):
            if pause:
                self._timer.wake_in(pause.total_seconds())
        single_failure = record.result == "DOWN" and self.breaker.state is State.CLOSED
        write = log.info if single_failure or record.result in INFO_RESULTS else log.debug
        write(
            "delivery_settled",
            channel=self.channel,
            channel_send_id=delivery.id,
            correlation_id=delivery.headers.get("correlation_id"),
            attempt=delivery.attempt,
            result=record.result,
            error=record.error,
        )
