-- Every row of one level has its rows in the next. A check returns the number of rows it checked, the number of wrong
-- rows, and a few examples. It reads the rows created in a time window; newer rows may still be in progress. The window
-- starts at an id of each table, so the history before it costs nothing.

-- name: reservation_events
-- A reservation and its event are committed together: every version has one event, the first is the request, and the
-- last matches the reservation's status. RESERVATION_DECIDED announces an event of the same version to screens.
-- $1 since · $2 until · $3 first reservation · $4 first event
WITH event AS (
    SELECT aggregate_id, aggregate_version, event_type
      FROM event_outbox
     WHERE id >= $4 AND aggregate_type = 'reservation' AND schedule_key IS NULL
       AND event_type <> 'RESERVATION_DECIDED'
), checked_row AS (
    SELECT r.id,
           count(event.aggregate_version) = r.version
           AND count(DISTINCT event.aggregate_version) = r.version
           AND max(event.aggregate_version) = r.version
           AND bool_or(event.aggregate_version = 1 AND event.event_type = 'RESERVATION_REQUESTED')
           AND bool_or(event.aggregate_version = r.version
                       AND CASE r.status
                               WHEN 'NOT_ACCEPTED' THEN event.event_type IN ('RESERVATION_REQUESTED', 'RESERVATION_CHANGED',
                                                                            'RESERVATION_DECISION_UNDONE')
                               WHEN 'ACCEPTED' THEN event.event_type IN ('RESERVATION_ACCEPTED', 'RESERVATION_REOPENED')
                               ELSE event.event_type = 'RESERVATION_' || r.status
                           END) AS is_right
      FROM reservation AS r
      LEFT JOIN event ON event.aggregate_id = r.id
     WHERE r.id >= $3 AND r.created_at >= $1 AND r.created_at < $2
     GROUP BY r.id
)
SELECT count(*) AS checked, count(*) FILTER (WHERE is_right IS NOT TRUE) AS wrong,
       (array_agg(format('reservation %s', id) ORDER BY id) FILTER (WHERE is_right IS NOT TRUE))[1:3] AS examples
  FROM checked_row

-- name: event_reservations
-- Every event has its reservation, in that version or a later one.
-- $1 since · $2 until · $3 first event
WITH checked_row AS (
    SELECT e.id, coalesce(r.version >= e.aggregate_version, false) AS is_right
      FROM event_outbox AS e
      LEFT JOIN reservation AS r ON r.id = e.aggregate_id
     WHERE e.id >= $3 AND e.created_at >= $1 AND e.created_at < $2 AND e.aggregate_type = 'reservation'
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('event %s', id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: reservation_actions
-- Every version after the first has its action, whichever route the decision came by.
-- $1 since · $2 until · $3 first reservation · $4 first action
WITH acted AS (
    SELECT reservation_id, count(DISTINCT resulting_version) AS versions
      FROM notification_action
     WHERE id >= $4 AND resulting_version IS NOT NULL
     GROUP BY reservation_id
), checked_row AS (
    SELECT r.id, coalesce(acted.versions, 0) = r.version - 1 AS is_right
      FROM reservation AS r
      LEFT JOIN acted ON acted.reservation_id = r.id
     WHERE r.id >= $3 AND r.created_at >= $1 AND r.created_at < $2
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('reservation %s', id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: first_to_act
-- At most one actor was first for each version of a reservation.
-- $1 since · $2 until · $3 first action
WITH checked_row AS (
    SELECT reservation_id, reservation_version, count(*) FILTER (WHERE first_to_act) <= 1 AS is_right
      FROM notification_action
     WHERE id >= $3 AND created_at >= $1 AND created_at < $2
     GROUP BY reservation_id, reservation_version
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('reservation %s version %s', reservation_id, reservation_version) ORDER BY reservation_id)
            FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: event_listeners
-- All listeners have handled every published event.
-- $1 since · $2 until · $3 first event · $4 listeners
WITH checked_row AS (
    SELECT e.id,
           (SELECT count(*) FROM processed_event AS p WHERE p.event_id = e.event_id AND p.listener = ANY ($4::text[]))
               = cardinality($4) AS is_right
      FROM event_outbox AS e
     WHERE e.id >= $3 AND e.created_at >= $1 AND e.status = 'PUBLISHED' AND e.published_at < $2
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('event %s', id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: event_people
-- Every recipient of an event has a notification. People added after the event are not expected to have one. A scheduled
-- event counts only if the reservation still has the version that it was scheduled for. Some audiences are notified only if
-- certain people caused the event.
-- $1 since · $2 until · $3 first event · $4 event types · $5 the audience that each notifies · $6 the user types that must
-- have caused it, separated by commas, or NULL
WITH expected AS (
    SELECT * FROM unnest($4::text[], $5::text[], $6::text[]) AS expected (event_type, audience, only_by)
), event AS MATERIALIZED (
    SELECT e.id, e.event_id, expected.audience, e.created_at, (e.payload ->> 'restaurantId')::bigint AS restaurant_id,
           (e.payload ->> 'customerId')::bigint AS customer_id, (e.payload ->> 'agencyId')::bigint AS agency_id
      FROM event_outbox AS e
      JOIN expected USING (event_type)
     WHERE e.id >= $3 AND e.created_at >= $1 AND e.status = 'PUBLISHED' AND e.published_at < $2
       AND (e.schedule_key IS NULL
            OR EXISTS (SELECT FROM reservation AS r WHERE r.id = e.aggregate_id AND r.version = e.aggregate_version))
       AND (expected.only_by IS NULL OR e.payload #>> '{actor,userType}' = ANY (string_to_array(expected.only_by, ',')))
), recipient AS (
    SELECT event.*, 'RESTAURANT_USER' AS user_type, staff.id AS user_id
      FROM event JOIN restaurant_users AS staff USING (restaurant_id)
     WHERE audience = 'RESTAURANT' AND staff.created_at <= event.created_at
    UNION ALL
    SELECT event.*, 'CUSTOMER', customer_id FROM event WHERE audience = 'CUSTOMER'
    UNION ALL
    SELECT event.*, 'ADMIN_USER', admin.id
      FROM event CROSS JOIN admin_users AS admin
     WHERE audience = 'ADMIN' AND admin.created_at <= event.created_at
    UNION ALL
    SELECT event.*, 'AGENCY_USER', agent.id
      FROM event JOIN agency_users AS agent USING (agency_id)
     WHERE audience = 'AGENCY' AND agent.created_at <= event.created_at
), checked_row AS (
    SELECT recipient.id, recipient.user_type, recipient.user_id, n.id IS NOT NULL AS is_right
      FROM recipient
      LEFT JOIN event_notification AS en ON en.event_id = recipient.event_id AND en.audience = recipient.audience
      LEFT JOIN notification AS n
             ON n.event_notification_id = en.id AND n.user_type = recipient.user_type AND n.user_id = recipient.user_id
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('event %s, %s:%s', id, user_type, user_id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: notification_order
-- Each audience is notified of a reservation in the order of its versions. Reminders and thank-you messages are scheduled
-- in advance and are not part of that order.
-- $1 since · $2 until · $3 first event_notification · $4 types of scheduled events
WITH checked_row AS (
    SELECT id, reservation_id, audience,
           coalesce(aggregate_version > lag(aggregate_version) OVER (PARTITION BY reservation_id, audience ORDER BY id), true)
               AS is_right
      FROM event_notification
     WHERE id >= $3 AND created_at >= $1 AND created_at < $2
       AND event_type <> ALL ($4::text[])
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('reservation %s, %s', reservation_id, audience) ORDER BY id) FILTER (WHERE NOT is_right))[1:3]
           AS examples
  FROM checked_row

-- name: notification_outboxes
-- A notification and its row of L1 are committed together.
-- $1 since · $2 until · $3 first notification · $4 first row of L1
WITH checked_row AS (
    SELECT n.id, o.id IS NOT NULL AS is_right
      FROM notification AS n
      LEFT JOIN notification_outbox AS o ON o.notification_id = n.id AND o.id >= $4
     WHERE n.id >= $3 AND n.created_at >= $1 AND n.created_at < $2
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('notification %s', id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: notification_channels
-- A published row of L1 has a row of L2 for every default channel of its person that the event may use, sent or not.
-- $1 since · $2 until · $3 first row of L1 · $4 first row of L2
-- $5 event types · $6 audience · $7 user type · $8 channel of each
WITH channel AS (
    SELECT *
      FROM unnest($5::text[], $6::text[], $7::text[], $8::text[]) AS channel (event_type, audience, user_type, channel_type)
), checked_row AS (
    SELECT o.notification_id, channel.channel_type, s.id IS NOT NULL AS is_right
      FROM notification_outbox AS o
      JOIN channel ON channel.audience = o.notification_type
      JOIN notification AS n ON n.id = o.notification_id AND n.user_type = channel.user_type
      JOIN event_notification AS en ON en.id = n.event_notification_id AND en.event_type = channel.event_type
      LEFT JOIN notification_channel_send AS s
             ON s.notification_id = o.notification_id AND s.channel_type = channel.channel_type AND s.id >= $4
     WHERE o.id >= $3 AND o.created_at >= $1 AND o.created_at < $2 AND o.status = 'PUBLISHED'
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('notification %s, %s', notification_id, channel_type) ORDER BY notification_id)
            FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: channel_outcomes
-- A finished row has a recorded call that its provider accepted, or a reason.
-- $1 since · $2 until · $3 first row of L2 · $4 first attempt
WITH taken AS (
    SELECT DISTINCT channel_send_id FROM channel_send_attempt WHERE id >= $4 AND outcome = 'SENT'
), checked_row AS (
    SELECT s.id,
           CASE WHEN s.is_sent THEN s.outcome = 'SENT' AND s.sent_at IS NOT NULL AND taken.channel_send_id IS NOT NULL
                ELSE s.outcome <> 'SENT' AND s.last_error IS NOT NULL
           END AS is_right
      FROM notification_channel_send AS s
      LEFT JOIN taken ON taken.channel_send_id = s.id
     WHERE s.id >= $3 AND s.created_at >= $1 AND s.created_at < $2 AND s.is_sent IS NOT NULL
)
SELECT count(*) AS checked, count(*) FILTER (WHERE is_right IS NOT TRUE) AS wrong,
       (array_agg(format('send %s', id) ORDER BY id) FILTER (WHERE is_right IS NOT TRUE))[1:3] AS examples
  FROM checked_row

-- name: shared_addresses
-- An event is sent once to an address that several people share (a Slack webhook): a message has the event's id, which is
-- unique per address, and a row that was skipped because of another one has such a row.
-- $1 since · $2 until · $3 first row of L2 · $4 channels with shared addresses
WITH checked_row AS (
    SELECT s.id,
           CASE WHEN s.outcome = 'SKIPPED' AND s.last_error LIKE 'sent once %'
                THEN EXISTS (SELECT
                               FROM notification_channel_send AS carrier
                              WHERE carrier.shared_event_id = en.event_id AND carrier.recipient = s.recipient)
                WHEN s.outcome IN ('SKIPPED', 'WITHDRAWN') THEN true
                ELSE s.shared_event_id IS NOT DISTINCT FROM en.event_id
           END AS is_right
      FROM notification_channel_send AS s
      JOIN notification AS n ON n.id = s.notification_id AND n.user_type = s.user_type
      JOIN event_notification AS en ON en.id = n.event_notification_id
     WHERE s.id >= $3 AND s.created_at >= $1 AND s.created_at < $2 AND s.channel_type = ANY ($4::text[])
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('send %s', id) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: channel_order
-- On each channel a person is notified of a reservation in the order of its versions. A requeued row may follow others of
-- its own version.
-- $1 since · $2 until · $3 first row of L2
WITH checked_row AS (
    SELECT id, channel_type,
           coalesce(aggregate_version >= max(aggregate_version) OVER (
                        PARTITION BY reservation_id, user_type, user_id, channel_type
                        ORDER BY sent_at, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS is_right
      FROM notification_channel_send
     WHERE id >= $3 AND created_at >= $1 AND created_at < $2 AND is_sent AND reservation_id IS NOT NULL
)
SELECT count(*) AS checked, count(*) FILTER (WHERE NOT is_right) AS wrong,
       (array_agg(format('send %s, %s', id, channel_type) ORDER BY id) FILTER (WHERE NOT is_right))[1:3] AS examples
  FROM checked_row

-- name: calls_after_success
-- No call starts after a call of the same send has succeeded.
-- $1 since · $2 until · $3 first attempt
WITH call AS (
    SELECT id, channel_send_id, started_at,
           min(finished_at) FILTER (WHERE outcome = 'SENT') OVER (PARTITION BY channel_send_id) AS taken_at
      FROM channel_send_attempt
     WHERE id >= $3 AND started_at >= $1 AND started_at < $2
)
SELECT count(*) AS checked, count(*) FILTER (WHERE started_at > taken_at) AS wrong,
       (array_agg(format('send %s', channel_send_id) ORDER BY id) FILTER (WHERE started_at > taken_at))[1:3] AS examples
  FROM call

-- name: due_events
-- No due row stays open, with or without an expired lease.
-- $1 until
SELECT count(*) AS checked, count(*) FILTER (WHERE greatest(available_at, lease_until) < $1) AS wrong,
       (array_agg(format('event %s, %s', id, status) ORDER BY id)
            FILTER (WHERE greatest(available_at, lease_until) < $1))[1:3] AS examples
  FROM event_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')

-- name: due_notifications
-- $1 until
SELECT count(*) AS checked, count(*) FILTER (WHERE greatest(available_at, lease_until) < $1) AS wrong,
       (array_agg(format('L1 %s, %s', id, status) ORDER BY id)
            FILTER (WHERE greatest(available_at, lease_until) < $1))[1:3] AS examples
  FROM notification_outbox
 WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')

-- name: due_sends
-- $1 until
SELECT count(*) AS checked, count(*) FILTER (WHERE greatest(next_attempt_at, lease_until) < $1) AS wrong,
       (array_agg(format('send %s, %s', id, channel_type) ORDER BY id)
            FILTER (WHERE greatest(next_attempt_at, lease_until) < $1))[1:3] AS examples
  FROM notification_channel_send
 WHERE is_sent IS NULL

-- name: put_off
-- A row that is postponed again and again is never due for long, so this uses the time when it was first due: for a reminder
-- its scheduled time, for a message in quiet hours their end.
-- $1 first due before this
WITH open AS (
    SELECT format('event %s, %s: %s', id, status, last_error) AS example, coalesce(first_due_at, available_at) AS first_due
      FROM event_outbox
     WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
    UNION ALL
    SELECT format('L1 %s, %s: %s', id, status, last_error), coalesce(first_due_at, available_at)
      FROM notification_outbox
     WHERE status IN ('PENDING', 'PROCESSING', 'FAILED')
    UNION ALL
    SELECT format('send %s, %s: %s', id, channel_type, left(last_error, 40)), coalesce(first_due_at, next_attempt_at)
      FROM notification_channel_send
     WHERE is_sent IS NULL
)
SELECT count(*) AS checked, count(*) FILTER (WHERE first_due < $1) AS wrong,
       (array_agg(example ORDER BY first_due) FILTER (WHERE first_due < $1))[1:3] AS examples
  FROM open

-- name: dead_rows
-- Somebody was not notified. An operator has to fix the cause, then requeue or discard the row.
WITH dead AS (
    SELECT format('event %s: %s', id, last_error) AS example FROM event_outbox WHERE status = 'DEAD'
    UNION ALL
    SELECT format('L1 %s: %s', id, last_error) FROM notification_outbox WHERE status = 'DEAD'
)
SELECT count(*) AS checked, count(*) AS wrong, (array_agg(example))[1:3] AS examples
  FROM dead

-- name: dead_sends
-- Sends that were given up: the address does not exist, or the provider failed at every attempt.
SELECT count(*) AS checked, count(*) AS wrong,
       (array_agg(format('send %s, %s: %s', id, channel_type, left(last_error, 40)) ORDER BY id DESC))[1:3] AS examples
  FROM notification_channel_send
 WHERE is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE')

-- name: unsent
-- Sends that were not sent, by outcome.
-- $1 since · $2 until · $3 first row of L2
WITH finished AS (
    SELECT outcome, count(*) AS rows
      FROM notification_channel_send
     WHERE id >= $3 AND created_at >= $1 AND created_at < $2 AND is_sent IS NOT NULL
     GROUP BY outcome
)
SELECT coalesce(sum(rows), 0)::bigint AS checked, coalesce(sum(rows) FILTER (WHERE outcome <> 'SENT'), 0)::bigint AS wrong,
       array_agg(format('%s %s', rows, outcome) ORDER BY rows DESC) FILTER (WHERE outcome <> 'SENT') AS examples
  FROM finished

-- name: broken_calls
-- A dispatcher ended during these calls. Their result is unknown, so the row was retried.
-- $1 since · $2 until · $3 first attempt
SELECT count(*) AS checked, count(*) FILTER (WHERE finished_at IS NULL) AS wrong,
       (array_agg(format('send %s', channel_send_id) ORDER BY id) FILTER (WHERE finished_at IS NULL))[1:3] AS examples
  FROM channel_send_attempt
 WHERE id >= $3 AND started_at >= $1 AND started_at < $2
