-- Publishes events of L0 again. A scheduled event is republished only for the reservation version that it was scheduled for
-- and before its time has passed. An aggregate has one open event per schedule key.

-- name: find_published
-- `reason` says why an event is not published again, or is NULL.
-- $1 after this id · $2 limit · $3 published since or NULL · $4 event id or NULL · $5 type or NULL · $6 only events
-- that not all four listeners have handled
SELECT e.id, e.event_id, e.event_type, e.aggregate_type, e.aggregate_id, e.aggregate_version, e.schedule_key,
       CASE WHEN e.schedule_key IS NULL THEN NULL
            WHEN EXISTS (SELECT
                           FROM event_outbox AS newer
                          WHERE newer.aggregate_type = e.aggregate_type
                            AND newer.aggregate_id = e.aggregate_id
                            AND newer.schedule_key = e.schedule_key
                            AND (newer.status IN ('PENDING', 'PROCESSING', 'FAILED')
                                 OR newer.status = 'PUBLISHED' AND newer.id > e.id)) THEN 'planned anew'
            WHEN r.version IS DISTINCT FROM e.aggregate_version THEN 'the reservation has changed since it was planned'
            WHEN now() > r.slot_time + CASE e.event_type
                                           WHEN 'RESERVATION_VISIT_ENDED' THEN interval '3 days'
                                           ELSE interval '0'
                                       END THEN 'too late to be useful'
       END AS reason
  FROM event_outbox AS e
  LEFT JOIN reservation AS r ON e.aggregate_type = 'reservation' AND r.id = e.aggregate_id
 WHERE e.status = 'PUBLISHED'
   AND e.id > $1
   AND ($3::interval IS NULL OR e.published_at > now() - $3)
   AND ($4::uuid IS NULL OR e.event_id = $4)
   AND ($5::text IS NULL OR e.event_type = $5)
   AND (NOT $6 OR (SELECT count(*) FROM processed_event AS p WHERE p.event_id = e.event_id) < 4)
 ORDER BY e.id
 LIMIT $2

-- name: republish_events
-- $1 ids
UPDATE event_outbox
   SET status = 'PENDING', published_at = NULL, retry_count = 0, available_at = clock_timestamp(), first_due_at = NULL
 WHERE id = ANY ($1::bigint[]) AND status = 'PUBLISHED'
RETURNING id

-- name: append_intervention
-- $1 level · $2 ids · $3 filter
INSERT INTO outbox_intervention (level, act, row_ids, filter)
VALUES ($1, 'republish', $2, $3)

-- name: announce
-- $1 level
SELECT pg_notify($1, '')
