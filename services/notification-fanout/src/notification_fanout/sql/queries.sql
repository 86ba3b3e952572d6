-- The listeners. $1 has one element per event. The statements find the recipients themselves, so the number of round
-- trips does not depend on the number of recipients.

-- name: append_processed_events
-- Returns which events are known (their restaurant and customer exist), and which of those are new to this listener.
-- Waits for a replica that handles the same events; they are not new afterwards.
-- $1 event ids · $2 restaurants or NULL · $3 customers or NULL · $4 listener
WITH given AS MATERIALIZED (
    SELECT event_id,
           (restaurant_id IS NULL OR EXISTS (SELECT FROM restaurant WHERE id = restaurant_id))
           AND (customer_id IS NULL OR EXISTS (SELECT FROM customer WHERE id = customer_id)) AS is_known
      FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS event (event_id, restaurant_id, customer_id)
), new AS (
    INSERT INTO processed_event (event_id, listener)
    SELECT event_id, $4
      FROM given
     WHERE is_known
     ORDER BY event_id  -- the same order in every replica prevents deadlocks
    ON CONFLICT DO NOTHING
    RETURNING event_id
)
SELECT given.event_id, given.is_known, new.event_id IS NOT NULL AS is_new
  FROM given
  LEFT JOIN new USING (event_id)

-- name: append_notifications
-- Writes event_notification, notification and L1 in the order of $1. texts holds the title and body in every language;
-- a recipient gets those of their locale. Inactive people get none. Skips scheduled events whose reservation is not
-- accepted or has another time.
-- $1 the events, as a JSON array of objects · $2 audience · $3 user type · $4 types of scheduled events
WITH given AS MATERIALIZED (
    SELECT *
      FROM jsonb_to_recordset($1) AS event (
               position integer, event_id uuid, event_type text, reservation_id bigint, restaurant_id bigint,
               customer_id bigint, agency_id bigint, aggregate_version integer, slot_time timestamptz, shared boolean,
               scheduled boolean, properties jsonb, headers jsonb, texts jsonb)
     WHERE NOT (scheduled AND EXISTS (SELECT
                                        FROM reservation
                                       WHERE reservation.id = event.reservation_id
                                         AND (reservation.status NOT IN ('ACCEPTED', 'ARRIVED')
                                              OR reservation.slot_time <> event.slot_time)))
), recipient AS (
    SELECT position, id AS user_id, locale
      FROM given JOIN restaurant_users USING (restaurant_id)
     WHERE $3 = 'RESTAURANT_USER' AND active
    UNION ALL
    SELECT position, customer.id, locale
      FROM given JOIN customer ON customer.id = given.customer_id
     WHERE $3 = 'CUSTOMER' AND active
    UNION ALL
    SELECT position, id, locale
      FROM given CROSS JOIN admin_users
     WHERE $3 = 'ADMIN_USER' AND active
    UNION ALL
    SELECT position, id, locale
      FROM given JOIN agency_users USING (agency_id)
     WHERE $3 = 'AGENCY_USER' AND active
), event AS (
    INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version,
                                    properties, headers, shared_read)
    SELECT event_id, event_type, $2, reservation_id, restaurant_id, aggregate_version, properties, headers, shared
      FROM given
     WHERE EXISTS (SELECT FROM recipient WHERE recipient.position = given.position)
     ORDER BY position
    ON CONFLICT (event_id, audience) DO NOTHING  -- republished after its row of processed_event was purged
    RETURNING id, event_id
), created AS (
    INSERT INTO notification (event_notification_id, user_id, user_type, title, body)
    SELECT event.id, user_id, $3, text ->> 0, text ->> 1
      FROM recipient
      JOIN given USING (position)
      JOIN event USING (event_id)
     CROSS JOIN LATERAL (SELECT coalesce(texts -> left(lower(locale), 2), texts -> 'it')) AS chosen (text)
     ORDER BY position, user_id
    RETURNING id, event_notification_id
), outbox AS (
    INSERT INTO notification_outbox (notification_id, notification_type, partition)
    SELECT created.id, $2, abs(reservation_id % 16)
      FROM created
      JOIN event ON event.id = created.event_notification_id
      JOIN given USING (event_id)
     ORDER BY created.id
    RETURNING id
)
SELECT (SELECT count(*) FROM outbox) AS created,
       (SELECT count(*)
          FROM given
         WHERE NOT scheduled
           -- max() instead of EXISTS: EXISTS is planned as a join with the whole history while that is short, and the
           -- cached plan remains when it is long.
           AND aggregate_version < (SELECT max(later.aggregate_version)
                                      FROM event_notification AS later
                                     WHERE later.reservation_id = given.reservation_id
                                       AND later.audience = $2
                                       AND later.event_type <> ALL ($4::text[]))) AS late

-- name: lock_earlier
-- The notifications of earlier versions. The lock orders this transaction and the expansion of the same notification:
-- rows expanded before are withdrawn next, an expansion afterwards sees the later version. The ids are sorted first and
-- the rows locked one by one: this pool plans without sorts, and would read the whole table in the order of its key.
-- $1 reservations · $2 their new versions · $3 audience · $4 event types, or NULL for all
WITH candidate AS MATERIALIZED (
    SELECT earlier.id
      FROM unnest($1::bigint[], $2::integer[]) AS latest (reservation_id, version)
      JOIN event_notification AS earlier
        ON earlier.reservation_id = latest.reservation_id AND earlier.aggregate_version < latest.version
     WHERE earlier.audience = $3
       AND ($4::text[] IS NULL OR earlier.event_type = ANY ($4))
), ordered AS MATERIALIZED (
    SELECT id FROM candidate ORDER BY id
)
SELECT locked.id, locked.reservation_id, locked.aggregate_version
  FROM ordered
 CROSS JOIN LATERAL (
           SELECT id, reservation_id, aggregate_version
             FROM event_notification
            WHERE id = ordered.id
              FOR NO KEY UPDATE) AS locked

-- name: find_frame_recipients
-- The recipients who still may see the notification.
-- $1 event_notification ids
SELECT event_notification_id, user_type, user_id
  FROM own_notification
 WHERE event_notification_id = ANY ($1::bigint[])
 ORDER BY event_notification_id, user_id

-- name: find_staff
-- $1 restaurants
SELECT restaurant_id, id
  FROM restaurant_users
 WHERE restaurant_id = ANY ($1::bigint[]) AND active
 ORDER BY id

-- The expander.

-- name: lock_events
-- The event notifications of a batch of L1. The lock waits for a concurrent decision on the same notification. The
-- decision is read by a later statement, because this one's snapshot is older than the wait.
-- The advisory lock orders expansions and the deactivation of a person, which takes it exclusively: an expansion either
-- finishes before its sends are withdrawn, or reads that the person is inactive. Expansions share it.
-- $1 notification ids · $2 their user types
SELECT id, event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version, properties, headers,
       shared_read, is_read, read_by_user_id, created_at
  FROM event_notification
 WHERE (SELECT pg_advisory_xact_lock_shared(45, 0)) IS NOT NULL
   AND id = ANY (ARRAY(  -- an array keeps the planner from choosing a join
           SELECT DISTINCT event_notification_id
             FROM notification
             JOIN unnest($1::bigint[], $2::text[]) AS claimed (id, user_type) USING (id, user_type)))
 ORDER BY id
   FOR SHARE

-- name: find_resolutions
-- The first action on each event notification, whether its reservation has a later version, the next event with a
-- notification for the same audience, whether an earlier version was accepted, and which notification carries the event's
-- message to each shared address.
-- $1 event_notification ids
SELECT event.id, action.action_type, action.actor_type, action.actor_id, actor.name AS actor_name,
       action.created_at AS acted_at, action.outcome,
       reservation.version > event.aggregate_version AS has_later_version, reservation.version,
       next.event_type AS next_event_type, next.aggregate_version AS next_version,
       -- Not EXISTS: it may be planned as a hash of the whole history.
       (SELECT true
          FROM event_notification AS earlier
         WHERE earlier.reservation_id = event.reservation_id
           AND earlier.aggregate_version < event.aggregate_version
           AND earlier.audience = event.audience
           AND earlier.event_type = 'RESERVATION_ACCEPTED'
         LIMIT 1) AS was_accepted,
       (SELECT jsonb_object_agg(carrier.recipient, carrier.notification_id)
          FROM notification_channel_send AS carrier
         WHERE carrier.shared_event_id = event.event_id) AS carriers
  FROM event_notification AS event
  LEFT JOIN reservation ON reservation.id = event.reservation_id
  LEFT JOIN LATERAL (
      SELECT action_type, actor_type, actor_id, created_at, outcome
        FROM notification_action
       WHERE notification_action.reservation_id = event.reservation_id
         AND reservation_version = event.aggregate_version
         AND first_to_act
       LIMIT 1
  ) AS action ON true
  LEFT JOIN person AS actor ON actor.user_type = action.actor_type AND actor.user_id = action.actor_id
  LEFT JOIN LATERAL (
      SELECT later.event_type, later.aggregate_version
        FROM event_notification AS later
       WHERE later.reservation_id = event.reservation_id
         AND later.aggregate_version > event.aggregate_version
         AND later.audience = event.audience
       ORDER BY later.aggregate_version, later.id
       LIMIT 1
  ) AS next ON true
 WHERE event.id = ANY ($1::bigint[])

-- name: find_restaurants
-- What the messages to guests show of the restaurants. $1 restaurant ids
SELECT id, address, phone, sender_name, reply_to FROM restaurant WHERE id = ANY ($1::bigint[])

-- name: find_recipients
-- The recipients of a batch of L1: notification, addresses and preferences.
-- $1 notification ids · $2 their user types
SELECT own.id, own.event_notification_id, own.user_type, own.user_id, own.title, own.body, own.properties, own.is_read,
       own.created_at, person.name, person.email, person.phone, person.fcm_token, person.locale, person.timezone,
       person.restaurant_id, person.agency_id, person.active,
       preference.channels, preference.event_types, preference.quiet_from, preference.quiet_until,
       (SELECT jsonb_object_agg(channel_type, jsonb_build_array(address, reason))
          FROM undeliverable_address AS mark
         WHERE mark.user_type = own.user_type AND mark.user_id = own.user_id AND mark.silences) AS undeliverable,
       now() AS now
  FROM unnest($1::bigint[], $2::text[]) AS claimed (id, user_type)
  JOIN notification AS own USING (id, user_type)
  JOIN person USING (user_type, user_id)
  LEFT JOIN notification_preference AS preference USING (user_type, user_id)

-- name: lock_recipients
-- Expanders that plan messages to the same recipient take turns, so that each counts the messages of the others. The locks
-- end with the transaction; they are taken in one order, so that two expanders cannot wait for each other. Recipients share
-- 128 locks: PostgreSQL's table of locks is small, and a batch may have thousands of recipients.
-- $1 channels with recipients
SELECT pg_advisory_xact_lock(45, key)
  FROM (SELECT DISTINCT hashtext(recipient) & 127 AS key FROM unnest($1::text[]) AS recipient ORDER BY key) AS sorted

-- name: find_due_times
-- The due times of the last hour and later, the latest first, of messages that are sent or open. The first ones are left
-- out: the limit cannot hit them. A statement of its own: it must see what was committed before the locks were taken.
-- $1 channels · $2 recipients · $3 their limits · $4 their numbers of new messages
SELECT ARRAY(SELECT s.next_attempt_at
               FROM notification_channel_send AS s
              WHERE s.channel_type = asked.channel_type
                AND s.recipient = asked.recipient
                AND s.is_sent IS NOT FALSE
                AND s.next_attempt_at > now() - interval '1 hour'
              ORDER BY s.next_attempt_at DESC
             OFFSET greatest(asked.most - asked.messages, 0)
              LIMIT least(asked.most, asked.messages)) AS times,
       clock_timestamp() AS now
  FROM unnest($1::text[], $2::text[], $3::integer[], $4::integer[])
       WITH ORDINALITY AS asked (channel_type, recipient, most, messages, number)
 ORDER BY asked.number

-- name: append_channel_sends
-- L2 of a batch. Rows of an earlier expansion stay unchanged: they may have been sent already.
-- $1 the rows, as a JSON array of objects
INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id, reservation_id,
                                       aggregate_version, recipient, shared_event_id, message, headers, is_sent, outcome,
                                       last_error, withdrawn_because, next_attempt_at, not_after)
SELECT notification_id, channel_type, user_type, user_id, restaurant_id, reservation_id, aggregate_version, recipient,
       shared_event_id, message, headers, is_sent, outcome, last_error, CASE outcome WHEN 'WITHDRAWN' THEN last_error END,
       coalesce(next_attempt_at, clock_timestamp()), not_after
  FROM jsonb_to_recordset($1) AS row (
           notification_id bigint, channel_type text, user_type text, user_id bigint, restaurant_id bigint,
           reservation_id bigint, aggregate_version integer, recipient text, shared_event_id uuid, message jsonb,
           headers jsonb, is_sent boolean, outcome text, last_error text, next_attempt_at timestamptz, not_after timestamptz)
ON CONFLICT (notification_id, channel_type) DO NOTHING
RETURNING channel_type, coalesce(outcome, 'OPEN') AS outcome

-- Live frames that RabbitMQ did not confirm.

-- name: append_live_frame
-- $1 the message
INSERT INTO live_frame (message) VALUES ($1)

-- name: lock_live_frames
-- One replica publishes at a time, which keeps the order. The lock ends with the transaction.
SELECT pg_try_advisory_xact_lock(hashtext('notification-fanout live frames'))

-- name: list_live_frames
-- $1 limit
SELECT id, message FROM live_frame ORDER BY id LIMIT $1

-- name: delete_live_frames
-- $1 ids
DELETE FROM live_frame WHERE id = ANY ($1::bigint[])

-- Catching up after a queue was deleted.

-- name: request_catch_up
-- $1 listener
INSERT INTO listener_catch_up (listener) VALUES ($1)
ON CONFLICT (listener) DO UPDATE SET requested_at = clock_timestamp()

-- name: find_catch_up
-- $1 listener
SELECT requested_at FROM listener_catch_up WHERE listener = $1

-- name: finish_catch_up
-- Keeps a request that was repeated in the meantime. $1 listener · $2 when it was requested
DELETE FROM listener_catch_up WHERE listener = $1 AND requested_at = $2

-- name: list_unprocessed_events
-- In the order of their ids. PROCESSING events are included: the broker may have confirmed them while the queue was
-- missing. $1 listener · $2 how far back · $3 after this id · $4 limit
SELECT id, event_id, event_type, aggregate_type, aggregate_id, aggregate_version, payload::text AS payload, headers,
       created_at
  FROM event_outbox AS event
 WHERE id > $3
   AND (status = 'PROCESSING'
        OR (status = 'PUBLISHED' AND coalesce(published_at, discarded_at) > now() - $2::interval))
   AND NOT EXISTS (SELECT FROM processed_event AS done WHERE done.event_id = event.event_id AND done.listener = $1)
 ORDER BY id
 LIMIT $4

-- Purging.

-- name: purge_processed_events
-- $1 retention · $2 limit
DELETE FROM processed_event
 WHERE ctid = ANY (ARRAY(
           SELECT ctid
             FROM processed_event
            WHERE processed_at < now() - $1::interval
            ORDER BY processed_at
            LIMIT $2))

-- name: purge_event_notifications
-- With their notifications. Those of a reservation in the future are kept: staff may still have to decide on it.
-- $1 retention · $2 limit
WITH outdated AS MATERIALIZED (
    SELECT id
      FROM event_notification
     WHERE created_at < now() - $1::interval
       AND coalesce((SELECT slot_time < now() FROM reservation WHERE reservation.id = reservation_id), true)
     ORDER BY created_at
     LIMIT $2
       FOR UPDATE SKIP LOCKED
), notifications AS (
    DELETE FROM notification WHERE event_notification_id = ANY (ARRAY(SELECT id FROM outdated))
)
DELETE FROM event_notification WHERE id = ANY (ARRAY(SELECT id FROM outdated))
