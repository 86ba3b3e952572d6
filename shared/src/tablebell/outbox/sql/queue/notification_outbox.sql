-- L1. open = PENDING, PROCESSING or FAILED.

-- name: claim
-- $1 partitions · $2 limit · $3 token · $4 lease · $5, $6 position (due, id) to continue after
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

-- name: complete_if_leased
-- $1 ids · $2 token
UPDATE notification_outbox
   SET status = 'PUBLISHED', published_at = clock_timestamp(), lease_token = NULL, lease_until = NULL, last_error = NULL
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: fail_if_leased
-- $1 ids · $2 token · $3 errors · $4 pauses · $5 max attempts
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
