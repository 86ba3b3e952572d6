-- The relay's own queries on event_outbox. The operations that all outboxes share are in tablebell.outbox.

-- name: find_next_due
-- Whether an event is due, and the seconds until the next planned event or retry. The only query of an idle relay.
-- ORDER BY keeps the first subquery on the index by time, which EXISTS would not: many events may be planned and none due.
-- $1 partitions · $2, $3 position of the cursor
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
       ), false) AS is_due,
       (
           SELECT extract(epoch FROM min(available_at) - now())::float8
             FROM event_outbox
            WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
              AND available_at > now()
              AND partition = ANY ($1::smallint[])
       ) AS seconds_until_next

-- name: find_abandoned
-- Leased events in partitions that this relay has just acquired.
-- $1 partitions
SELECT id
  FROM event_outbox
 WHERE status = 'PROCESSING' AND partition = ANY ($1::smallint[])
 ORDER BY id

-- name: release_abandoned
-- Ends the leases of the previous owner before they expire. If it still runs, it can record nothing without its token.
-- $1 ids
UPDATE event_outbox
   SET status = CASE WHEN retry_count > 0 THEN 'FAILED' ELSE 'PENDING' END, lease_token = NULL, lease_until = NULL
 WHERE id = ANY ($1::bigint[]) AND status = 'PROCESSING'
RETURNING id

-- name: bury_abandoned
-- $1 id · $2 error
UPDATE event_outbox
   SET status = 'DEAD', last_error = $2, lease_token = NULL, lease_until = NULL
 WHERE id = $1 AND status = 'PROCESSING'
RETURNING id
