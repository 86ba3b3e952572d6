-- L0. open = PENDING, PROCESSING or FAILED. The events of one aggregate go out in the order of their version, and those of
-- one version in the order of their id: an open event holds back those after it, except a PENDING one whose time has not
-- come. DEAD holds back nothing.

-- name: append
-- $1 the rows, as a JSON array of objects
INSERT INTO event_outbox (event_id, event_type, aggregate_type, aggregate_id, aggregate_version, schedule_key, payload,
                          headers, available_at)
SELECT coalesce(event_id, gen_random_uuid()), event_type, coalesce(aggregate_type, 'reservation'), aggregate_id,
       aggregate_version, schedule_key, payload, coalesce(headers, '{}'), coalesce(available_at, clock_timestamp())
  FROM jsonb_to_recordset($1) AS given (
           event_id uuid, event_type text, aggregate_type text, aggregate_id bigint, aggregate_version integer,
           schedule_key text, payload jsonb, headers jsonb, available_at timestamptz)
RETURNING id

-- name: claim
-- An event is leased only when every open event before it is leased with it or is held by the same token already: whatever
-- was skipped because somebody else holds it, waits for its retry, or lies beyond the limit keeps its followers waiting,
-- and nobody else's.
-- The planner expects next to nothing to be open, since next to nothing is most of the time: IN looks up a hash even so,
-- where a join would compare each with each.
-- $1 partitions · $2 limit · $3 token · $4 lease · $5, $6 where the sweep has come to
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
          OFFSET 0  -- one index probe per aggregate; without it the planner may read all that is open
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

-- name: find_due
-- What a claim would look at.
-- $1 partitions · $2 limit · $3, $4 where the sweep has come to
SELECT id, available_at AS due
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND available_at <= now()
   AND (available_at, id) > ($3, $4)
   AND partition = ANY ($1::smallint[])
   AND (lease_until IS NULL OR lease_until <= now())
 ORDER BY available_at, id
 LIMIT $2

-- name: extend_if_leased
-- $1 ids · $2 token · $3 lease
UPDATE event_outbox
   SET lease_until = now() + $3
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: complete_if_leased
-- $1 ids · $2 token
UPDATE event_outbox
   SET status = 'PUBLISHED', published_at = clock_timestamp(), lease_token = NULL, lease_until = NULL, last_error = NULL
 WHERE id = ANY ($1::bigint[]) AND lease_token = $2
RETURNING id

-- name: fail_if_leased
-- $1 ids · $2 token · $3 errors · $4 pauses · $5 how many attempts there are
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

-- name: bury_if_leased
-- $1 ids · $2 token · $3 errors
UPDATE event_outbox AS o
   SET status = 'DEAD', retry_count = o.retry_count + 1, last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $3::text[]) AS failed (id, error)
 WHERE o.id = failed.id AND o.lease_token = $2
RETURNING o.id

-- name: bury_if_free
-- For a row that cannot be leased: nobody may hold it.
-- $1 ids · $2 errors
UPDATE event_outbox AS o
   SET status = 'DEAD', last_error = failed.error, lease_token = NULL, lease_until = NULL
  FROM unnest($1::bigint[], $2::text[]) AS failed (id, error)
 WHERE o.id = failed.id
   AND o.status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND (o.lease_until IS NULL OR o.lease_until <= now())
RETURNING o.id

-- name: release_if_leased
-- A row that has failed before stays FAILED, so that it goes on holding back its followers.
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

-- name: requeue
-- A planned event stays dead if the aggregate has a newer one of its key that is open or is requeued now.
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

-- name: find
-- $1 status · $2 ids or NULL · $3 part of the error or NULL · $4 after which id · $5 limit
SELECT id, status, event_type AS subject, aggregate_id, retry_count, last_error, available_at, created_at
  FROM event_outbox
 WHERE status = $1
   AND ($2::bigint[] IS NULL OR id = ANY ($2))
   AND ($3::text IS NULL OR strpos(last_error, $3) > 0)
   AND id > $4
 ORDER BY id
 LIMIT $5

-- name: count
SELECT status, count(*) AS rows, min(created_at) AS oldest, min(coalesce(first_due_at, available_at)) AS first_due
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
 GROUP BY status
UNION ALL
SELECT 'DEAD', count(*), min(created_at), min(coalesce(first_due_at, available_at))
  FROM event_outbox
 WHERE status = 'DEAD'
HAVING count(*) > 0

-- name: count_done
SELECT status, count(*) AS rows,
       count(*) FILTER (WHERE coalesce(published_at, discarded_at) > now() - interval '1 minute') AS last_minute
  FROM event_outbox
 WHERE status IN ('PUBLISHED', 'DISCARDED')
 GROUP BY status

-- name: purge
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
