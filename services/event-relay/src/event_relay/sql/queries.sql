-- What the relay asks of event_outbox besides the operations that every outbox has.

-- name: look_ahead
-- Whether something is due, and in how many seconds the next planned event or retry will be: all that an idle relay asks.
-- The order keeps it on the index by time (an EXISTS would drop it): there may be many planned events, and none due.
-- $1 partitions · $2, $3 where the sweep has come to
SELECT coalesce((
           SELECT true
             FROM event_outbox
            WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
              AND available_at <= now()
              AND (available_at, id) > ($2, $3)
              AND partition = ANY ($1::smallint[])
              AND (lease_until IS NULL OR lease_until <= now())
            ORDER BY available_at, id
            LIMIT 1
       ), false) AS due,
       (
           SELECT extract(epoch FROM min(available_at) - now())::float8
             FROM event_outbox
            WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
              AND available_at > now()
              AND partition = ANY ($1::smallint[])
       ) AS next_in

-- name: find_orphans
-- What is leased in partitions that have just become ours.
-- $1 partitions
SELECT id
  FROM event_outbox
 WHERE status = 'PROCESSING' AND partition = ANY ($1::smallint[])
 ORDER BY id

-- name: release_orphans
-- An owner that is gone, or about to learn that it is none, leased these: without its token it writes nothing more, and
-- nobody waits for its lease to end.
-- $1 ids
UPDATE event_outbox
   SET status = CASE WHEN retry_count > 0 THEN 'FAILED' ELSE 'PENDING' END, lease_token = NULL, lease_until = NULL
 WHERE id = ANY ($1::bigint[]) AND status = 'PROCESSING'
RETURNING id

-- name: bury_orphan
-- $1 id · $2 error
UPDATE event_outbox
   SET status = 'DEAD', last_error = $2, lease_token = NULL, lease_until = NULL
 WHERE id = $1 AND status = 'PROCESSING'
RETURNING id

-- name: measure_lag
-- The age of the oldest event that should have been published by now, in seconds.
SELECT coalesce(extract(epoch FROM now() - min(available_at)), 0)::float8
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED') AND available_at <= now()

-- name: lock_purge
-- One relay purges at a time. Held until the end of the transaction.
SELECT pg_try_advisory_xact_lock(42, 2000)
