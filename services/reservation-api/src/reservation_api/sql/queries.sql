-- The queries of reservation-api.

-- name: find_restaurant
-- $1 restaurant
SELECT r.id, r.name, r.timezone, r.accepts_reservations, r.max_party_size, r.opening_hours,
       coalesce((SELECT jsonb_object_agg(c.day, c.reason)
                   FROM restaurant_closure AS c
                  WHERE c.restaurant_id = r.id AND c.day >= current_date - 1), '{}') AS closures
  FROM restaurant AS r
 WHERE r.id = $1

-- name: find_person
-- $1 user type · $2 user id
SELECT name, restaurant_id
  FROM person
 WHERE user_type = $1 AND user_id = $2

-- name: find_access
-- $1 user type · $2 user id
SELECT person.active, person.role,
       (SELECT extract(epoch FROM max(issued_before))::float8
          FROM revocation
         WHERE user_type = $1 AND user_id = $2 AND token_id IS NULL) AS revoked_before,
       ARRAY(SELECT token_id
               FROM revocation
              WHERE user_type = $1 AND user_id = $2 AND token_id IS NOT NULL) AS revoked_tokens
  FROM person
 WHERE person.user_type = $1 AND person.user_id = $2

-- name: list_people_without_access
-- Those of the given people who do not exist or are inactive.
-- $1 user types · $2 user ids
SELECT asked.user_type, asked.user_id
  FROM unnest($1::text[], $2::bigint[]) AS asked (user_type, user_id)
  LEFT JOIN person ON person.user_type = asked.user_type AND person.user_id = asked.user_id
 WHERE person.active IS NOT TRUE

-- name: append_revocation
-- $1 user type · $2 user id · $3 token id, or NULL for all tokens that the person has now
INSERT INTO revocation (user_type, user_id, token_id)
VALUES ($1, $2, $3)

-- name: list_revocations
SELECT user_type, user_id, token_id, extract(epoch FROM issued_before)::float8 AS issued_before
  FROM revocation
 WHERE expires_at > now()
 ORDER BY id

-- name: purge_revocations
-- $1 time after the expiry · $2 limit
DELETE FROM revocation
 WHERE id IN (SELECT id FROM revocation WHERE expires_at <= now() - $1::interval ORDER BY expires_at LIMIT $2)

-- name: ask_reservation
-- Inserts the reservation and its event in one statement: atomic, in one round trip. event_factory builds the event;
-- this statement adds the values that it generates or looks up. Returns no row if the asker may not reserve for the
-- customer, and the limit instead of a reservation if one is reached.
-- $1 asker's type · $2 asker's id · $3 customer · $4 restaurant · $5 party size · $6 slot time · $7 note · $8 event ·
-- $9 table gap · $10 open requests per customer, $11 per restaurant · $12 requests per hour
WITH asker AS MATERIALIZED (
    SELECT c.id AS customer_id, c.name AS customer_name, c.agency_id, coalesce(a.name, c.name) AS actor_name
      FROM customer AS c
      LEFT JOIN agency_users AS a ON $1 = 'AGENCY_USER' AND a.id = $2 AND a.agency_id = c.agency_id
     WHERE c.id = $3 AND (a.id IS NOT NULL OR ($1 = 'CUSTOMER' AND c.id = $2))
), limited AS MATERIALIZED (
    SELECT reached, retry_seconds
      FROM asker
     CROSS JOIN LATERAL reached_limit(asker.customer_id, $4, NULL, NULL, NULL, $6, $9, $10, $11, $12, 0)
), reserved AS (
    INSERT INTO reservation (customer_id, restaurant_id, agency_id, party_size, slot_time, note)
    SELECT customer_id, $4, agency_id, $5, $6, $7
      FROM asker
     WHERE NOT EXISTS (SELECT FROM limited)
    RETURNING id, agency_id, status, version, created_at, updated_at
), appended_event AS (
    INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, headers, available_at, created_at)
    SELECT event.event_type, reserved.id, reserved.version,
           jsonb_set(event.payload, '{actor,name}', to_jsonb(asker.actor_name))
           || jsonb_build_object('reservationId', reserved.id, 'status', reserved.status,
                                 'customerName', asker.customer_name, 'agencyId', reserved.agency_id),
           event.headers, reserved.updated_at, reserved.updated_at
      FROM reserved, asker, jsonb_to_record($8) AS event (event_type text, payload jsonb, headers jsonb)
)
SELECT reserved.id, asker.customer_name, reserved.agency_id, reserved.status, reserved.version, reserved.created_at,
       reserved.updated_at, limited.reached, limited.retry_seconds
  FROM asker
  LEFT JOIN limited ON true
  LEFT JOIN reserved ON true

-- name: find_reservation_of_guest
-- $1 reservation · $2 user type, $3 user id: its customer, or a user of the agency that it was booked through
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, restaurant.name AS restaurant_name, restaurant.timezone
  FROM reservation AS r
  JOIN customer AS c ON c.id = r.customer_id
  JOIN restaurant ON restaurant.id = r.restaurant_id
 WHERE r.id = $1
   AND CASE $2
           WHEN 'CUSTOMER' THEN r.customer_id = $3
           WHEN 'AGENCY_USER' THEN r.agency_id = (SELECT agency_id FROM agency_users WHERE id = $3)
       END

-- name: list_reservations_of_customer
-- The newest first. $1 customer · $2 status or NULL · $3 before this id · $4 limit
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, restaurant.name AS restaurant_name, restaurant.timezone
  FROM reservation AS r
  JOIN customer AS c ON c.id = r.customer_id
  JOIN restaurant ON restaurant.id = r.restaurant_id
 WHERE r.customer_id = $1
   AND ($2::text IS NULL OR r.status = $2)
   AND r.id < $3
 ORDER BY r.id DESC
 LIMIT $4

-- name: list_reservations_of_agency
-- The newest first. $1 agency user · $2 customer or NULL · $3 status or NULL · $4 before this id · $5 limit
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, restaurant.name AS restaurant_name, restaurant.timezone
  FROM reservation AS r
  JOIN customer AS c ON c.id = r.customer_id
  JOIN restaurant ON restaurant.id = r.restaurant_id
 WHERE r.agency_id = (SELECT agency_id FROM agency_users WHERE id = $1)
   AND ($2::bigint IS NULL OR r.customer_id = $2)
   AND ($3::text IS NULL OR r.status = $3)
   AND r.id < $4
 ORDER BY r.id DESC
 LIMIT $5

-- name: list_reservations_of_staff
-- Ordered by slot time. The date is a day in the restaurant's timezone.
-- $1 member of staff · $2 status or NULL · $3 date or NULL · $4 part of the guest's name, $5 digits of the phone number,
-- or NULL · $6, $7 after this slot time and id · $8 limit
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, c.phone AS customer_phone, restaurant.name AS restaurant_name, restaurant.timezone,
       before.visits, before.no_shows
  FROM restaurant_users AS staff
  JOIN restaurant ON restaurant.id = staff.restaurant_id
  JOIN reservation AS r ON r.restaurant_id = staff.restaurant_id
  JOIN customer AS c ON c.id = r.customer_id
 CROSS JOIN LATERAL (
           SELECT count(*) FILTER (WHERE status = 'ARRIVED') AS visits,
                  count(*) FILTER (WHERE status = 'NO_SHOW') AS no_shows
             FROM reservation AS earlier
            WHERE earlier.customer_id = r.customer_id AND earlier.restaurant_id = r.restaurant_id
              AND earlier.id <> r.id) AS before
 WHERE staff.id = $1
   AND ($2::text IS NULL OR r.status = $2)
   AND ($3::date IS NULL
        OR (r.slot_time >= $3::date::timestamp AT TIME ZONE restaurant.timezone
            AND r.slot_time < ($3::date + 1)::timestamp AT TIME ZONE restaurant.timezone))
   AND (($4::text IS NULL AND $5::text IS NULL)
        OR position(lower($4) IN lower(c.name)) > 0
        OR position($5 IN regexp_replace(c.phone, '[^0-9]', '', 'g')) > 0)
   AND (r.slot_time, r.id) > ($6, $7)
 ORDER BY r.slot_time, r.id
 LIMIT $8

-- name: lock_reservation
-- Serializes all changes of a reservation. $1 reservation
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, restaurant.name AS restaurant_name, restaurant.timezone
  FROM reservation AS r
  JOIN customer AS c ON c.id = r.customer_id
  JOIN restaurant ON restaurant.id = r.restaurant_id
 WHERE r.id = $1
   FOR UPDATE OF r

-- name: change_reservation
-- Requires the lock. updated_at always increases, even if the clock goes back: it is the time of the event.
-- $1 reservation · $2 status · $3 version · $4 party size · $5 slot time · $6 proposed time · $7 note
UPDATE reservation
   SET status = $2, version = $3, party_size = $4, slot_time = $5, proposed_time = $6, note = $7,
       updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1
RETURNING updated_at

-- name: find_reached_limit
-- The limit that a change of a reservation exceeds, if any. $1 customer · $2 restaurant · $3 changer's type ·
-- $4 changer's id · $5 reservation · $6 new time or NULL · $7 table gap · $8 changes per hour
SELECT reached, retry_seconds
  FROM reached_limit($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, $8)

-- name: append_events
-- $1 rows from event_factory, as a JSON array of objects
INSERT INTO event_outbox (event_type, aggregate_type, aggregate_id, aggregate_version, schedule_key, payload, headers,
                          available_at, created_at)
SELECT event_type, coalesce(aggregate_type, 'reservation'), aggregate_id, aggregate_version, schedule_key, payload,
       headers, coalesce(available_at, created_at), created_at
  FROM jsonb_to_recordset($1) AS given (
           event_type text, aggregate_type text, aggregate_id bigint, aggregate_version integer, schedule_key text,
           payload jsonb, headers jsonb, available_at timestamptz, created_at timestamptz)

-- name: withdraw_planned_events
-- A relay that has leased one of them may still publish it, but clearing the lease token makes its later writes no-ops.
-- $1 reservation · $2 reason
UPDATE event_outbox
   SET status = 'DISCARDED', discarded_at = clock_timestamp(), last_error = $2, lease_token = NULL, lease_until = NULL
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM event_outbox
            WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND schedule_key IS NOT NULL
              AND status IN ('PENDING', 'PROCESSING', 'FAILED')
            ORDER BY id
              FOR UPDATE))

-- name: withdraw_decision_if_planned
-- The event of a decision that is not due yet. A relay claims only due events, so either it or this statement has the row.
-- $1 reservation · $2 the version that the decision created · $3 reason
UPDATE event_outbox
   SET status = 'DISCARDED', discarded_at = clock_timestamp(), last_error = $3
 WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND aggregate_version = $2
   AND schedule_key IS NULL AND status = 'PENDING' AND available_at > clock_timestamp()
RETURNING id

-- name: publish_decision_if_planned
-- Makes the event of a decision due, so that it is published before the event of the next version.
-- $1 reservation · $2 the version that the decision created
UPDATE event_outbox
   SET available_at = clock_timestamp()
 WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND aggregate_version = $2
   AND schedule_key IS NULL AND status = 'PENDING' AND available_at > clock_timestamp()

-- name: find_notification
-- $1 user type · $2 user id · $3 notification
SELECT *
  FROM inbox
 WHERE user_type = $1 AND user_id = $2 AND id = $3

-- name: lock_shared_notifications
-- The shared notifications of a version of a reservation, with the actor's copy. The lock makes the expander wait; if
-- the expander was first, the withdrawal that follows sees its sends.
-- $1 reservation · $2 version · $3 user type · $4 user id
SELECT en.id, n.id AS notification_id
  FROM event_notification AS en
  LEFT JOIN notification AS n ON n.event_notification_id = en.id AND n.user_type = $3 AND n.user_id = $4
 WHERE en.reservation_id = $1 AND en.aggregate_version = $2 AND en.audience = 'RESTAURANT' AND en.shared_read
 ORDER BY en.id
   FOR UPDATE OF en

-- name: find_first_action
-- $1 reservation · $2 the version that was acted on
SELECT a.action_type, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at
  FROM notification_action AS a
  LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
 WHERE a.reservation_id = $1 AND a.reservation_version = $2 AND a.first_to_act

-- name: find_resulting_action
-- $1 reservation · $2 the version that the action resulted in
SELECT a.action_type, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at
  FROM notification_action AS a
  LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
 WHERE a.reservation_id = $1 AND a.resulting_version = $2

-- name: has_acted
-- Whether the notification already has this action. Requires the reservation's lock.
-- $1 reservation · $2 notification · $3 action
SELECT EXISTS (SELECT
                 FROM notification_action
                WHERE reservation_id = $1 AND notification_id = $2 AND action_type = $3)

-- name: append_action
-- Requires the reservation's lock. $1 event notification or NULL · $2 notification or NULL · $3 reservation ·
-- $4 its version, $5 the resulting version or NULL · $6 actor's type · $7 actor's id · $8 action ·
-- $9 the outcome or NULL · $10 whether it counts as a decision
INSERT INTO notification_action (event_notification_id, notification_id, reservation_id, reservation_version,
                                 resulting_version, actor_type, actor_id, action_type, outcome, first_to_act)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9,
        $10 AND NOT EXISTS (SELECT FROM notification_action
                            WHERE reservation_id = $3 AND reservation_version = $4 AND first_to_act))
RETURNING created_at

-- name: list_notifications
-- The newest first. $1 user type · $2 user id · $3 before this id · $4 limit
SELECT *
  FROM inbox
 WHERE user_type = $1 AND user_id = $2 AND id < $3
 ORDER BY id DESC
 LIMIT $4

-- name: list_unread_notifications
-- $1 user type · $2 user id · $3 before this id · $4 limit
SELECT *
  FROM inbox
 WHERE user_type = $1 AND user_id = $2 AND id < $3 AND NOT is_read
 ORDER BY id DESC
 LIMIT $4

-- name: list_open_notifications
-- The array is computed first: the planner would rather search the whole inbox for the few open ones.
-- $1 user type · $2 user id · $3 before this id · $4 limit
SELECT *
  FROM inbox
 WHERE user_type = $1 AND user_id = $2
   AND id = ANY (ARRAY(SELECT id
                         FROM open_notification
                        WHERE user_type = $1 AND user_id = $2 AND id < $3
                        ORDER BY id DESC
                        LIMIT $4))
 ORDER BY id DESC

-- name: count_notifications
-- The unread and the open notifications. $1 user type · $2 user id
SELECT (SELECT count(*) FROM own_notification WHERE user_type = $1 AND user_id = $2 AND NOT is_read) AS unread,
       (SELECT count(*) FROM open_notification WHERE user_type = $1 AND user_id = $2) AS open

-- name: lock_unread_notifications
-- One or all unread notifications. Locked in order of id, so that two readers of shared notifications cannot deadlock.
-- $1 user type · $2 user id · $3 notification or NULL
SELECT n.id, en.id AS event_notification_id, en.shared_read, clock_timestamp() AS locked_at
  FROM notification AS n
  JOIN event_notification AS en ON en.id = n.event_notification_id
 WHERE n.user_type = $1 AND n.user_id = $2 AND NOT n.is_read
   AND n.id = ANY (ARRAY(SELECT id
                           FROM own_notification
                          WHERE user_type = $1 AND user_id = $2 AND NOT is_read AND ($3::bigint IS NULL OR id = $3)))
   AND NOT (en.shared_read AND en.is_read)  -- rechecked after a lock wait: another reader may have committed
 ORDER BY en.id
   FOR UPDATE OF en

-- name: mark_shared_read
-- Marks shared notifications as read for all staff. $1 event notifications · $2 reader · $3 when
WITH shared AS (
    UPDATE event_notification
       SET is_read = true, read_by_user_id = $2, read_at = $3
     WHERE id = ANY ($1::bigint[]) AND NOT is_read
)
UPDATE notification
   SET is_read = true
 WHERE event_notification_id = ANY ($1::bigint[]) AND user_type = 'RESTAURANT_USER' AND NOT is_read

-- name: mark_read
-- $1 user type · $2 user id · $3 notifications
UPDATE notification
   SET is_read = true
 WHERE user_type = $1 AND user_id = $2 AND id = ANY ($3::bigint[]) AND NOT is_read

-- name: find_preferences
-- $1 user type · $2 user id
SELECT channels, event_types, quiet_from, quiet_until
  FROM notification_preference
 WHERE user_type = $1 AND user_id = $2

-- name: save_preferences
-- $1 user type · $2 user id · $3 channels · $4 event types · $5 quiet from · $6 quiet until
INSERT INTO notification_preference (user_type, user_id, channels, event_types, quiet_from, quiet_until)
SELECT user_type, user_id, $3, $4, $5, $6
  FROM person
 WHERE user_type = $1 AND user_id = $2
ON CONFLICT (user_type, user_id) DO UPDATE
   SET channels = excluded.channels, event_types = excluded.event_types, quiet_from = excluded.quiet_from,
       quiet_until = excluded.quiet_until, updated_at = now()
RETURNING user_id

-- name: claim_key
-- Waits for a running request with the same key; returns no row if the key already has a response.
-- $1 user type · $2 user id · $3 key · $4 hash of the request · $5 retention
INSERT INTO idempotency_key AS k (user_type, user_id, key, request_hash)
VALUES ($1, $2, $3, $4)
ON CONFLICT (user_type, user_id, key) DO UPDATE
   SET request_hash = excluded.request_hash, status_code = NULL, response = NULL, created_at = now()
 WHERE k.created_at < now() - $5::interval
RETURNING true

-- name: find_key
-- $1 user type · $2 user id · $3 key
SELECT request_hash, response
  FROM idempotency_key
 WHERE user_type = $1 AND user_id = $2 AND key = $3

-- name: save_response
-- $1 user type · $2 user id · $3 key · $4 status code · $5 response
UPDATE idempotency_key
   SET status_code = $4, response = $5
 WHERE user_type = $1 AND user_id = $2 AND key = $3

-- name: purge_keys
-- $1 retention · $2 limit
DELETE FROM idempotency_key
 WHERE (user_type, user_id, key) IN (
           SELECT user_type, user_id, key
             FROM idempotency_key
            WHERE created_at < now() - $1::interval
            ORDER BY created_at
            LIMIT $2
              FOR UPDATE SKIP LOCKED)
RETURNING true

-- name: lock_reservations_of_events
-- Before dead events are requeued: a concurrent act on the reservation waits, or find_outdated_events sees its result.
-- $1 events
SELECT id
  FROM reservation
 WHERE id = ANY (ARRAY(
           SELECT aggregate_id
             FROM event_outbox
            WHERE id = ANY ($1::bigint[]) AND aggregate_type = 'reservation' AND schedule_key IS NOT NULL))
 ORDER BY id
   FOR SHARE

-- name: find_outdated_events
-- Reminders and thanks of a version that is no longer the accepted one. $1 events
SELECT e.id, 'the reservation has moved on' AS reason
  FROM event_outbox AS e
  JOIN reservation AS r ON r.id = e.aggregate_id
 WHERE e.id = ANY ($1::bigint[])
   AND e.aggregate_type = 'reservation'
   AND e.schedule_key IS NOT NULL
   AND (r.status NOT IN ('ACCEPTED', 'ARRIVED') OR r.version > e.aggregate_version)
 ORDER BY e.id

-- name: close_dead_events
-- $1 events · $2 the reason for each
UPDATE event_outbox
   SET status = 'DISCARDED', discarded_at = clock_timestamp(), last_error = outdated.reason
  FROM unnest($1::bigint[], $2::text[]) AS outdated (id, reason)
 WHERE event_outbox.id = outdated.id AND status = 'DEAD'

-- name: lock_event_notifications_of_sends
-- Before dead sends are requeued: a concurrent decision waits, or find_outdated_sends sees its result.
-- $1 channel sends
SELECT id
  FROM event_notification
 WHERE id = ANY (ARRAY(
           SELECT n.event_notification_id
             FROM notification_channel_send AS s
             JOIN notification AS n ON n.id = s.notification_id AND n.user_type = s.user_type
            WHERE s.id = ANY ($1::bigint[])))
 ORDER BY id
   FOR SHARE

-- name: find_outdated_sends
-- Outdated sends: another person acted first, a later version notifies the same audience, or not_after has passed.
-- Admins are not notified of every version, the other audiences are. $1 channel sends
SELECT s.id,
       CASE WHEN state.is_settled OR state.has_moved_on THEN 'WITHDRAWN' ELSE 'EXPIRED' END AS outcome,
       CASE WHEN state.is_settled THEN format('handled by %s (%s)', person.name, first.action_type)
            WHEN state.has_moved_on THEN 'the reservation has moved on'
            ELSE to_char(s.not_after AT TIME ZONE 'UTC', '"of no use after" YYYY-MM-DD HH24:MI "UTC"')
       END AS reason
  FROM notification_channel_send AS s
  JOIN notification AS n ON n.id = s.notification_id AND n.user_type = s.user_type
  JOIN event_notification AS en ON en.id = n.event_notification_id
  LEFT JOIN reservation AS r ON r.id = en.reservation_id
  LEFT JOIN notification_action AS first
    ON en.shared_read AND first.reservation_id = en.reservation_id AND first.reservation_version = en.aggregate_version
       AND first.first_to_act
  LEFT JOIN person ON person.user_type = first.actor_type AND person.user_id = first.actor_id
 CROSS JOIN LATERAL (
           SELECT first.id IS NOT NULL AS is_settled,
                  CASE en.audience
                      WHEN 'ADMIN' THEN EXISTS (SELECT
                                                  FROM event_notification AS later
                                                 WHERE later.reservation_id = en.reservation_id
                                                   AND later.aggregate_version > en.aggregate_version
                                                   AND later.audience = 'ADMIN')
                      ELSE coalesce(r.version > en.aggregate_version, false)
                  END AS has_moved_on) AS state
 WHERE s.id = ANY ($1::bigint[])
   AND (state.is_settled OR state.has_moved_on OR s.not_after <= clock_timestamp())
 ORDER BY s.id

-- name: close_dead_sends
-- $1 channel sends · $2 the outcome of each · $3 the reason for each
UPDATE notification_channel_send
   SET outcome = outdated.outcome, last_error = outdated.reason, updated_at = now()
  FROM unnest($1::bigint[], $2::text[], $3::text[]) AS outdated (id, outcome, reason)
 WHERE notification_channel_send.id = outdated.id
   AND is_sent = false
   AND notification_channel_send.outcome IN ('EXHAUSTED', 'UNDELIVERABLE')

-- name: append_intervention
-- $1 level · $2 act · $3 rows · $4 filter · $5 admin
INSERT INTO outbox_intervention (level, act, row_ids, filter, actor_id)
VALUES ($1, $2, $3, $4, $5)

-- name: list_undeliverable_addresses
-- The oldest first. $1 user type, $2 user id or NULL · $3 channel or NULL · $4 part of the reason or NULL ·
-- $5 after this id · $6 limit
SELECT id, user_type, user_id, channel_type, address, reason, silences, marked_at
  FROM undeliverable_address
 WHERE ($1::text IS NULL OR (user_type = $1 AND user_id = $2::bigint))
   AND ($3::text IS NULL OR channel_type = $3)
   AND ($4::text IS NULL OR strpos(reason, $4) > 0)
   AND id > $5
 ORDER BY id
 LIMIT $6

-- name: clear_undeliverable_addresses
-- $1 ids
DELETE FROM undeliverable_address
 WHERE id = ANY ($1::bigint[])
RETURNING id, user_type, user_id, channel_type, address, reason, silences, marked_at

-- name: append_admin_read
-- $1 admin · $2 subject · $3 reservation
INSERT INTO admin_read (actor_id, subject, reservation_id)
VALUES ($1, $2, $3)

-- name: trace_reservation
-- $1 reservation
SELECT r.id, r.customer_id, r.restaurant_id, r.agency_id, r.party_size, r.slot_time, r.proposed_time, r.status, r.note,
       r.version, r.created_at, r.updated_at,
       c.name AS customer_name, restaurant.name AS restaurant_name, restaurant.timezone
  FROM reservation AS r
  JOIN customer AS c ON c.id = r.customer_id
  JOIN restaurant ON restaurant.id = r.restaurant_id
 WHERE r.id = $1

-- name: trace_events
-- UNION ALL, because open and completed rows have separate partial indexes. $1 reservation
SELECT e.id, e.event_id, e.event_type, e.aggregate_version, e.schedule_key, e.status, e.retry_count, e.last_error,
       e.available_at, e.created_at, e.published_at, e.discarded_at, e.headers,
       coalesce((SELECT jsonb_object_agg(p.listener, p.processed_at)
                   FROM processed_event AS p
                  WHERE p.event_id = e.event_id), '{}') AS processed
  FROM (SELECT *
          FROM event_outbox
         WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND status IN ('PENDING', 'PROCESSING', 'FAILED')
        UNION ALL
        SELECT *
          FROM event_outbox
         WHERE aggregate_type = 'reservation' AND aggregate_id = $1 AND status IN ('PUBLISHED', 'DEAD', 'DISCARDED')
       ) AS e
 ORDER BY e.aggregate_version, e.created_at, e.id

-- name: trace_notifications
-- $1 reservation
SELECT n.id, en.event_id, en.id AS event_notification_id, en.event_type, en.audience, n.user_type, n.user_id,
       person.name AS user_name, n.title, n.is_read, en.shared_read, en.read_by_user_id, en.read_at, n.created_at,
       o.status, o.retry_count, o.last_error, o.created_at AS queued_at, o.published_at
  FROM event_notification AS en
  JOIN notification AS n ON n.event_notification_id = en.id
  LEFT JOIN person ON person.user_type = n.user_type AND person.user_id = n.user_id
  LEFT JOIN notification_outbox AS o ON o.notification_id = n.id AND o.notification_type = en.audience
 WHERE en.reservation_id = $1
 ORDER BY en.aggregate_version, n.id

-- name: trace_channel_sends
-- $1 notifications
SELECT s.id, s.notification_id, s.channel_type, s.recipient, s.is_sent, s.outcome, s.attempt_count, s.last_error,
       s.next_attempt_at, s.not_after, s.provider_message_id, s.created_at, s.sent_at,
       coalesce((SELECT jsonb_agg(jsonb_build_object(
                            'attempt', a.attempt, 'startedAt', a.started_at, 'finishedAt', a.finished_at,
                            'outcome', a.outcome, 'detail', a.detail, 'providerMessageId', a.provider_message_id
                        ) ORDER BY a.id)
                   FROM channel_send_attempt AS a
                  WHERE a.channel_send_id = s.id), '[]') AS attempts
  FROM notification_channel_send AS s
 WHERE s.notification_id = ANY ($1::bigint[])
 ORDER BY s.notification_id, s.id

-- name: trace_actions
-- $1 reservation
SELECT a.id, a.event_notification_id, a.notification_id, a.reservation_version, a.resulting_version, a.action_type,
       a.first_to_act, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at
  FROM notification_action AS a
  LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
 WHERE a.reservation_id = $1
 ORDER BY a.id
