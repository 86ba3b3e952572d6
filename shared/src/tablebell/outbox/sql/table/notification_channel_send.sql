-- L2. open = is_sent IS NULL. The statuses of the other levels in terms of this table:
-- PENDING open, no attempt yet · PROCESSING open, leased · FAILED open, attempted · PUBLISHED is_sent · DEAD not sent, because
-- attempts ran out or the address is undeliverable · DISCARDED not sent for any other reason, which `outcome` names.

-- name: find_due
-- The rows that a claim examines.
-- $1 channel · $2 limit · $3, $4 position (due, id) to continue after
SELECT id, next_attempt_at AS due
  FROM notification_channel_send
 WHERE is_sent IS NULL
   AND channel_type = $1
   AND next_attempt_at <= now()
   AND (next_attempt_at, id) > ($3, $4)
   AND (lease_until IS NULL OR lease_until <= now())
 ORDER BY next_attempt_at, id
 LIMIT $2

-- name: bury_if_leased
-- The attempt was counted by the claim.
-- $1 ids · $2 token · $3 errors
UPDATE notification_channel_send AS o
   SET is_sent = false, outcome = 'UNDELIVERABLE', last_error = failed.error, lease_token = NULL, lease_until = NULL,
       updated_at = now()
  FROM unnest($1::bigint[], $3::text[]) AS failed (id, error)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id

-- name: bury_if_free
-- For a row that cannot be leased. A row under a valid lease is left alone.
-- $1 ids · $2 errors
UPDATE notification_channel_send AS o
   SET is_sent = false, outcome = 'UNDELIVERABLE', last_error = failed.error, lease_token = NULL, lease_until = NULL,
       updated_at = now()
  FROM unnest($1::bigint[], $2::text[]) AS failed (id, error)
 WHERE o.id = failed.id AND o.is_sent IS NULL AND (o.lease_until IS NULL OR o.lease_until <= now())
RETURNING o.id

-- name: find
-- $1 status · $2 ids or NULL · $3 part of the error or NULL · $4 id to continue after · $5 limit
SELECT id, $1::text AS status, channel_type AS subject, notification_id, attempt_count AS retry_count, last_error,
       next_attempt_at AS available_at, created_at
  FROM notification_channel_send
 WHERE CASE $1
           WHEN 'PENDING' THEN is_sent IS NULL AND attempt_count = 0 AND lease_token IS NULL
           WHEN 'PROCESSING' THEN is_sent IS NULL AND lease_token IS NOT NULL
           WHEN 'FAILED' THEN is_sent IS NULL AND attempt_count > 0 AND lease_token IS NULL
           WHEN 'PUBLISHED' THEN is_sent
           WHEN 'DEAD' THEN is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')
           WHEN 'DISCARDED' THEN is_sent = false AND coalesce(outcome, 'SKIPPED') NOT IN ('EXHAUSTED', 'UNDELIVERABLE')
           ELSE false
       END
   AND ($2::bigint[] IS NULL OR id = ANY ($2))
   AND ($3::text IS NULL OR strpos(last_error, $3) > 0)
   AND id > $4
 ORDER BY id
 LIMIT $5

-- name: requeue
-- $1 ids
UPDATE notification_channel_send
   SET is_sent = NULL, outcome = NULL, attempt_count = 0, next_attempt_at = clock_timestamp(), first_due_at = NULL,
       updated_at = now()
 WHERE id = ANY ($1::bigint[]) AND is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')
RETURNING id

-- name: discard
-- $1 ids
UPDATE notification_channel_send
   SET outcome = 'DISCARDED', updated_at = now()
 WHERE id = ANY ($1::bigint[]) AND is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')
RETURNING id

-- name: count
SELECT CASE WHEN lease_token IS NOT NULL THEN 'PROCESSING' WHEN attempt_count > 0 THEN 'FAILED' ELSE 'PENDING' END AS status,
       count(*) AS rows, min(created_at) AS oldest
  FROM notification_channel_send
 WHERE is_sent IS NULL
 GROUP BY 1
UNION ALL
SELECT 'DEAD', count(*), min(created_at)
  FROM notification_channel_send
 WHERE is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')
HAVING count(*) > 0

-- name: measure_delays
SELECT channel_type AS channel,
       extract(epoch FROM greatest(now() - min(next_attempt_at), interval '0'))::float8 AS lag_seconds,
       extract(epoch FROM greatest(now() - min(coalesce(first_due_at, next_attempt_at)), interval '0'))::float8
           AS overdue_seconds
  FROM notification_channel_send
 WHERE is_sent IS NULL
 GROUP BY channel_type

-- name: count_done
SELECT CASE WHEN is_sent THEN 'PUBLISHED' ELSE 'DISCARDED' END AS status, count(*) AS rows,
       count(*) FILTER (WHERE updated_at > now() - interval '1 minute') AS last_minute
  FROM notification_channel_send
 WHERE is_sent IS NOT NULL AND coalesce(outcome, 'SKIPPED') NOT IN ('EXHAUSTED', 'UNDELIVERABLE')
 GROUP BY 1

-- name: purge_done
-- The attempts are deleted with their row.
-- $1 retention · $2 limit
DELETE FROM notification_channel_send
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM notification_channel_send
            WHERE is_sent IS NOT NULL
              AND coalesce(outcome, 'SKIPPED') NOT IN ('EXHAUSTED', 'UNDELIVERABLE')
              AND updated_at < now() - $1::interval
            ORDER BY updated_at
            LIMIT $2
              FOR UPDATE SKIP LOCKED))
RETURNING id

-- name: purge_dead
-- $1 retention · $2 limit
DELETE FROM notification_channel_send
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM notification_channel_send
            WHERE is_sent = false
              AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')
              AND updated_at < now() - $1::interval
            ORDER BY updated_at
            LIMIT $2
              FOR UPDATE SKIP LOCKED))
RETURNING id
