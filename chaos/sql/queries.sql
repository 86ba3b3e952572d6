-- The queries of a chaos run, with the owner's role.

-- name: append_people
-- Every second customer comes through the agency. $1 number of restaurants · $2 number of customers
WITH house AS (
    INSERT INTO restaurant (name)
    SELECT 'Chaos ' || n FROM generate_series(1, $1::integer) AS n
    RETURNING id
), member AS (
    INSERT INTO restaurant_users (restaurant_id, name, email, phone, fcm_token)
    SELECT house.id, format('Staff %s of %s', n, house.id), format('staff-%s-%s@chaos.example', house.id, n),
           format('+39333%s%s', to_char(house.id, 'FM000000'), n), format('chaos-staff-%s-%s', house.id, n)
      FROM house CROSS JOIN generate_series(1, 2) AS n
    RETURNING id, restaurant_id
), office AS (
    INSERT INTO agency (name) VALUES ('Chaos Travel') RETURNING id
), agent AS (
    INSERT INTO agency_users (agency_id, name, email)
    SELECT id, 'Agent of ' || id, format('agent-%s@chaos.example', id) FROM office
    RETURNING id
), guest AS (
    INSERT INTO customer (name, email, phone, fcm_token, locale, agency_id)
    SELECT format('Guest %s of %s', n, office.id), format('guest-%s-%s@chaos.example', office.id, n),
           format('+39334%s%s', to_char(office.id, 'FM0000'), to_char(n, 'FM000')), format('chaos-guest-%s-%s', office.id, n),
           (ARRAY['it', 'en', 'es', 'pt'])[1 + n % 4], CASE WHEN n % 2 = 0 THEN office.id END
      FROM office CROSS JOIN generate_series(1, $2::integer) AS n
    RETURNING id
)
SELECT (SELECT array_agg(restaurant_id ORDER BY id) FROM member) AS staffed,
       (SELECT array_agg(id ORDER BY id) FROM member) AS staff,
       (SELECT array_agg(id ORDER BY id) FROM guest) AS customers,
       (SELECT array_agg(id ORDER BY id) FROM agent) AS agents

-- name: terminate_backends
-- All connections of all services at once, as in a failover.
SELECT count(pg_terminate_backend(pid))
  FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()

-- name: count_open
-- Open work: due rows of the three levels, published events that a listener has not handled, and live frames that RabbitMQ
-- has not accepted.
-- $1 the first event of the run
SELECT (SELECT count(*)
          FROM event_outbox
         WHERE status IN ('PENDING', 'PROCESSING', 'FAILED') AND available_at < now() + interval '10 minutes') AS events,
       (SELECT count(*)
          FROM event_outbox AS e
         WHERE e.id >= $1 AND e.status = 'PUBLISHED'
           AND (SELECT count(*) FROM processed_event AS p WHERE p.event_id = e.event_id) < 4) AS unhandled,
       (SELECT count(*) FROM notification_outbox WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')) AS notifications,
       (SELECT count(*) FROM notification_channel_send WHERE is_sent IS NULL) AS sends,
       (SELECT count(*) FROM live_frame) AS frames

-- name: next_event
SELECT coalesce(max(id), 0) + 1 FROM event_outbox

-- name: list_reservations
-- $1 customers
SELECT id, customer_id, slot_time FROM reservation WHERE customer_id = ANY ($1::bigint[])

-- name: list_events
-- $1 customers
SELECT e.aggregate_id, e.aggregate_version, e.event_type
  FROM event_outbox AS e
  JOIN reservation AS r ON r.id = e.aggregate_id
 WHERE e.aggregate_type = 'reservation' AND e.schedule_key IS NULL AND e.event_type <> 'RESERVATION_DECIDED' AND r.customer_id = ANY ($1::bigint[])

-- name: list_sends
-- Every row of L2, and its calls by result: accepted, without an answer, or interrupted by a crash. Not listed are people whose
-- message went to an address that they share with somebody: the audit checks that it was sent there once.
SELECT s.id, s.channel_type, s.user_type, s.user_id, s.reservation_id, s.aggregate_version, s.is_sent, s.outcome,
       count(a.id) FILTER (WHERE a.outcome = 'SENT') AS taken,
       count(a.id) FILTER (WHERE a.outcome IN ('RETRY', 'DOWN')) AS unanswered,
       count(a.id) FILTER (WHERE a.id IS NOT NULL AND a.outcome IS NULL) AS cut_short
  FROM notification_channel_send AS s
  LEFT JOIN channel_send_attempt AS a ON a.channel_send_id = s.id
 WHERE s.outcome IS DISTINCT FROM 'SKIPPED' OR s.last_error NOT LIKE 'sent once %'
 GROUP BY s.id

-- name: list_inbox
-- $1 user type · $2 user id
SELECT id, shared_read AND action_type IS NOT NULL AS is_resolved FROM inbox WHERE user_type = $1 AND user_id = $2
