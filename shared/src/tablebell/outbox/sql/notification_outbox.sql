-- L1. open = PENDING, PROCESSING or FAILED.

-- name: append
-- $1 the rows, as a JSON array of objects
INSERT INTO notification_outbox (notification_id, notification_type, partition, available_at)
SELECT notification_id, notification_type, coalesce(partition, 0), coalesce(available_at, clock_timestamp())
  FROM jsonb_to_recordset($1) AS given (
           notification_id bigint, notification_type text, partition smallint, available_at timestamptz)
RETURNING id

-- name: claim
-- $1 partitions · $2 limit · $3 token · $4 lease · $5, $6 where the sweep has come to
WITH due AS MATERIALIZED (
    SELECT id, available_at
      FROM notification_outbox
     WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
       AND available_at <= now()
       AND (available_at, id) > ($5, $6)
       AND partition = ANY ($1::smallint[])
       AND (lease_until IS NULL OR lease_until <= now())
     ORDER BY available_at, id
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), leased AS (
    UPDATE notification_outbox
       SET status = 'PROCESSING', lease_token = $3, lease_until = now() + $4
     WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id, notification_id, notification_type, partition, retry_count, created_at
)
SELECT due.id, due.available_at AS due, true AS leased, leased.notification_id, leased.notification_type, leased.partition,
       leased.retry_count, leased.created_at
  FROM due
  JOIN leased ON leased.id = due.id
 ORDER BY due.available_at, due.id

-- name: find_due
-- What a claim would look at.
-- $1 partitions · $2 limit · $3, $4 where the sweep has come to
SELECT id, available_at AS due
  FROM notification_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND available_at <= now()
   AND (available_at, id) > ($3, $4)
   AND partition = ANY ($1::smallint[])
   AND (lease_until IS NULL OR lease_until <= now())
 ORDER BY available_at, id
 LIMIT $2

-- name: extend_if_leased
-- $1 ids · $2 token · $3 lease
UPDATE notification_outbox
   SET lease_until = now() + $3
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: complete_if_leased
-- $1 ids · $2 token
UPDATE notification_outbox
   SET status = 'PUBLISHED', published_at = clock_timestamp(), lease_token = NULL, lease_until = NULL, last_error = NULL
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: fail_if_leased
-- $1 ids · $2 token · $3 errors · $4 pauses · $5 how many attempts there are
UPDATE notification_outbox AS o
   SET status = CASE WHEN o.retry_count + 1 >= $5 THEN 'DEAD' ELSE 'FAILED' END,
       retry_count = o.retry_count + 1,
       last_error = failed.error,
       available_at = now() + failed.pause,
       first_due_at = coalesce(o.first_due_at, o.available_at),
       lease_token = NULL,
       lease_until = NULL
  FROM unnest($1::bigint[], $3::text[], $4::interval[]) AS failed (id, error, pause)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id, o.status

-- name: bury_if_leased
-- $1 ids · $2 token · $3 errors
UPDATE notification_outbox AS o
   SET status = 'DEAD', retry_count = o.retry_count + 1, last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $3::text[]) AS failed (id, error)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id

-- name: bury_if_free
-- For a row that cannot be leased: nobody may hold it.
-- $1 ids · $2 errors
UPDATE notification_outbox AS o
   SET status = 'DEAD', last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $2::text[]) AS failed (id, error)
 WHERE o.id = failed.id
   AND o.status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND (o.lease_until IS NULL OR o.lease_until <= now())
RETURNING o.id

-- name: release_if_leased
-- $1 ids · $2 token · $3 errors · $4 pauses
UPDATE notification_outbox AS o
   SET status = CASE WHEN o.retry_count > 0 OR failed.pause > interval '0' THEN 'FAILED' ELSE 'PENDING' END,
       last_error = failed.error,
       available_at = CASE WHEN failed.pause > interval '0' THEN now() + failed.pause ELSE o.available_at END,
       first_due_at = CASE WHEN failed.pause > interval '0' THEN coalesce(o.first_due_at, o.available_at)
                           ELSE o.first_due_at
                      END,
       lease_token = NULL,
       lease_until = NULL
  FROM unnest($1::bigint[], $3::text[], $4::interval[]) AS failed (id, error, pause)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id

-- name: requeue
-- $1 ids
UPDATE notification_outbox
   SET status = 'PENDING', retry_count = 0, available_at = clock_timestamp(), first_due_at = NULL
 WHERE id = ANY ($1::bigint[]) AND status = 'DEAD'
RETURNING id

-- name: discard
-- $1 ids
UPDATE notification_outbox
   SET status = 'DISCARDED', discarded_at = clock_timestamp()
 WHERE id = ANY ($1::bigint[]) AND status = 'DEAD'
RETURNING id

-- name: find
-- $1 status · $2 ids or NULL · $3 part of the error or NULL · $4 after which id · $5 limit
SELECT id, status, notification_type AS subject, notification_id, retry_count, last_error, available_at, created_at
  FROM notification_outbox
 WHERE status = $1
   AND ($2::bigint[] IS NULL OR id = ANY ($2))
   AND ($3::text IS NULL OR strpos(last_error, $3) > 0)
   AND id > $4
 ORDER BY id
 LIMIT $5

-- name: count
SELECT status, count(*) AS rows, min(created_at) AS oldest, min(coalesce(first_due_at, available_at)) AS first_due
  FROM notification_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
 GROUP BY status
UNION ALL
SELECT 'DEAD', count(*), min(created_at), min(coalesce(first_due_at, available_at))
  FROM notification_outbox
 WHERE status = 'DEAD'
HAVING count(*) > 0

-- name: count_done
SELECT status, count(*) AS rows,
       count(*) FILTER (WHERE coalesce(published_at, discarded_at) > now() - interval '1 minute') AS last_minute
  FROM notification_outbox
 WHERE status IN ('PUBLISHED', 'DISCARDED')
 GROUP BY status

-- name: purge
-- $1 retention · $2 limit
DELETE FROM notification_outbox
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM notification_outbox
            WHERE status IN ('PUBLISHED', 'DISCARDED')
              AND coalesce(published_at, discarded_at) < now() - $1::interval
            ORDER BY coalesce(published_at, discarded_at)
            LIMIT $2
              FOR UPDATE SKIP LOCKED))
RETURNING id
