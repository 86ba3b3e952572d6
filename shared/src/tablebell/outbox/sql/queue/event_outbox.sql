-- L0. open = PENDING, PROCESSING or FAILED. The events of one aggregate are published in the order of their version, and
-- those of one version in the order of their id: an open event blocks its successors, except a PENDING one that is not due
-- yet. A DEAD event blocks nothing.

-- name: claim
-- An event is leased only if every open event before it is leased by this claim or is held by the same token already. An
-- event that is leased by another worker, waits for its retry, or is beyond the limit blocks its own successors only.
-- The planner expects few open rows, because there are few most of the time. IN uses a hash lookup even then; a join would
-- be a nested loop.
-- $1 partitions · $2 limit · $3 token · $4 lease · $5, $6 position (due, id) to continue after
WITH due AS MATERIALIZED (
    SELECT id, available_at, aggregate_type, aggregate_id, aggregate_version
      FROM event_outbox
     WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
       AND available_at <= now()
       AND (available_at, id) > ($5, $6)
       AND partition = ANY ($1::smallint[])
       AND (lease_until IS NULL OR lease_until <= now())
     ORDER BY available_at, id
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), open_line AS MATERIALIZED (
    SELECT o.id, o.aggregate_type, o.aggregate_id, o.aggregate_version, o.is_held
      FROM (SELECT aggregate_type, aggregate_id, max(ARRAY[aggregate_version, id]) AS last  -- the greatest version, then id
              FROM due
             GROUP BY aggregate_type, aggregate_id) AS aggregate
      CROSS JOIN LATERAL (
          SELECT id, aggregate_type, aggregate_id, aggregate_version,
                 lease_token IS NOT DISTINCT FROM $3 AND lease_until > now() AS is_held
            FROM event_outbox
           WHERE aggregate_type = aggregate.aggregate_type
             AND aggregate_id = aggregate.aggregate_id
             AND (aggregate_version, id) <= (aggregate.last[1], aggregate.last[2])
             AND status IN ('PENDING', 'PROCESSING', 'FAILED')
             AND NOT (status = 'PENDING' AND available_at > now())
          OFFSET 0  -- one index probe per aggregate; without it the planner may read all open rows
      ) AS o
), line AS (
    SELECT id, is_held,
           bool_and(is_held OR id IN (SELECT id FROM due)) OVER (
               PARTITION BY aggregate_type, aggregate_id ORDER BY aggregate_version, id
           ) AS is_clear
      FROM open_line
), leased AS (
    UPDATE event_outbox
       SET status = 'PROCESSING', lease_token = $3, lease_until = now() + $4
     WHERE id = ANY (ARRAY(SELECT id FROM line WHERE is_clear AND NOT is_held))
    RETURNING id, available_at AS due, true AS leased, aggregate_type, aggregate_id, aggregate_version, event_id,
              event_type, payload::text AS payload, headers, retry_count, created_at
)
SELECT * FROM leased
UNION ALL
SELECT id, available_at, false, aggregate_type, aggregate_id, aggregate_version, NULL, NULL, NULL, NULL, NULL, NULL
  FROM due
 WHERE id NOT IN (SELECT id FROM leased)
 ORDER BY aggregate_version, id

-- name: complete_if_leased
-- $1 ids · $2 token
UPDATE event_outbox
   SET status = 'PUBLISHED', published_at = clock_timestamp(), lease_token = NULL, lease_until = NULL, last_error = NULL
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: fail_if_leased
-- $1 ids · $2 token · $3 errors · $4 pauses · $5 max attempts
UPDATE event_outbox AS o
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
-- A row that has failed before stays FAILED, so that it still blocks its successors.
-- $1 ids · $2 token · $3 errors · $4 pauses
UPDATE event_outbox AS o
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
