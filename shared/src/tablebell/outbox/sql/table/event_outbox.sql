-- L0. open = PENDING, PROCESSING or FAILED.

-- name: find_due
-- The rows that a claim examines.
-- $1 partitions · $2 limit · $3, $4 position (due, id) to continue after
SELECT id, available_at AS due
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND available_at <= now()
   AND (available_at, id) > ($3, $4)
   AND partition = ANY ($1::smallint[])
   AND (lease_until IS NULL OR lease_until <= now())
 ORDER BY available_at, id
 LIMIT $2

-- name: bury_if_leased
-- $1 ids · $2 token · $3 errors
UPDATE event_outbox AS o
   SET status = 'DEAD', retry_count = o.retry_count + 1, last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $3::text[]) AS failed (id, error)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id

-- name: bury_if_free
-- For a row that cannot be leased. A row under a valid lease is left alone.
-- $1 ids · $2 errors
UPDATE event_outbox AS o
   SET status = 'DEAD', last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $2::text[]) AS failed (id, error)
 WHERE o.id = failed.id
   AND o.status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND (o.lease_until IS NULL OR o.lease_until <= now())
RETURNING o.id

-- name: find
-- $1 status · $2 ids or NULL · $3 part of the error or NULL · $4 id to continue after · $5 limit
SELECT id, status, event_type AS subject, aggregate_id, retry_count, last_error, available_at, created_at
  FROM event_outbox
 WHERE status = $1
   AND ($2::bigint[] IS NULL OR id = ANY ($2))
   AND ($3::text IS NULL OR strpos(last_error, $3) > 0)
   AND id > $4
 ORDER BY id
 LIMIT $5

-- name: requeue
-- A planned event stays dead if the aggregate has another event of its schedule key that is open or is requeued now.
-- $1 ids
UPDATE event_outbox AS o
   SET status = 'PENDING', retry_count = 0, available_at = clock_timestamp(), first_due_at = NULL
 WHERE id = ANY ($1::bigint[])
   AND status = 'DEAD'
   AND (schedule_key IS NULL
        OR NOT EXISTS (SELECT
                         FROM event_outbox AS other
                        WHERE other.aggregate_type = o.aggregate_type
                          AND other.aggregate_id = o.aggregate_id
                          AND other.schedule_key = o.schedule_key
                          AND (other.status IN ('PENDING', 'PROCESSING', 'FAILED')
                               OR other.status = 'DEAD' AND other.id = ANY ($1) AND other.id > o.id)))
RETURNING id

-- name: discard
-- $1 ids
UPDATE event_outbox
   SET status = 'DISCARDED', discarded_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status = 'DEAD'
RETURNING id

-- name: count
SELECT status, count(*) AS rows, min(created_at) AS oldest
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
 GROUP BY status
UNION ALL
SELECT 'DEAD', count(*), min(created_at)
  FROM event_outbox
 WHERE status = 'DEAD'
HAVING count(*) > 0

-- name: measure_delays
-- The first subquery reads only due rows: many events may be planned for later.
SELECT NULL::text AS channel,
       (SELECT coalesce(extract(epoch FROM now() - min(available_at)), 0)::float8
          FROM event_outbox
         WHERE status IN ('PENDING', 'PROCESSING', 'FAILED') AND available_at <= now()) AS lag_seconds,
       (SELECT coalesce(extract(epoch FROM greatest(now() - min(coalesce(first_due_at, available_at)), interval '0')), 0)::float8
          FROM event_outbox
         WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')) AS overdue_seconds

-- name: count_done
SELECT status, count(*) AS rows,
       count(*) FILTER (WHERE coalesce(published_at, discarded_at) > now() - interval '1 minute') AS last_minute
  FROM event_outbox
 WHERE status IN ('PUBLISHED', 'DISCARDED')
 GROUP BY status

-- name: purge_done
-- $1 retention · $2 limit
DELETE FROM event_outbox
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM event_outbox
            WHERE status IN ('PUBLISHED', 'DISCARDED')
              AND coalesce(published_at, discarded_at) < now() - $1::interval
            ORDER BY coalesce(published_at, discarded_at)
            LIMIT $2
              FOR UPDATE SKIP LOCKED))
RETURNING id

-- name: purge_dead
-- The age of a dead row counts from its last due time: an event may be written months before it is due.
-- $1 retention · $2 limit
DELETE FROM event_outbox
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM event_outbox
            WHERE status = 'DEAD'
              AND available_at < now() - $1::interval
            ORDER BY available_at
            LIMIT $2
              FOR UPDATE SKIP LOCKED))
RETURNING id
