-- One reservation for restaurant 10, requested and accepted, with all rows that a healthy system creates for it.
WITH reserved AS (
    INSERT INTO reservation (customer_id, restaurant_id, agency_id, party_size, slot_time, status, version)
    VALUES (5, 10, 7, 4, now() + interval '30 days', 'ACCEPTED', 2)
    RETURNING id
), event AS (
    INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, payload, status, published_at)
    SELECT type, id, version, '{"restaurantId": 10, "customerId": 5, "agencyId": 7}', 'PUBLISHED', clock_timestamp()
      FROM reserved CROSS JOIN (VALUES (1, 'RESERVATION_REQUESTED'), (2, 'RESERVATION_DECIDED'), (2, 'RESERVATION_ACCEPTED'))
                          AS version_event (version, type)
     ORDER BY version
    RETURNING event_id, event_type, aggregate_id, aggregate_version
), planned AS (
    INSERT INTO event_outbox (event_type, aggregate_id, aggregate_version, schedule_key, payload, available_at)
    SELECT 'RESERVATION_REMINDER_DUE', id, 2, 'reminder-24h', '{}', now() + interval '29 days' FROM reserved
), processed AS (
    INSERT INTO processed_event (event_id, listener)
    SELECT event_id, audience || '_LISTENER'
      FROM event CROSS JOIN unnest(ARRAY['RESTAURANT', 'CUSTOMER', 'ADMIN', 'AGENCY']) AS audience
), notified_event AS (
    INSERT INTO event_notification (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version, shared_read)
    SELECT event_id, event_type, audience, aggregate_id, 10, aggregate_version,
           audience = 'RESTAURANT'
      FROM event CROSS JOIN unnest(ARRAY['RESTAURANT', 'CUSTOMER', 'ADMIN', 'AGENCY']) AS audience
     WHERE aggregate_version = 1 OR audience IN ('CUSTOMER', 'AGENCY') AND event_type <> 'RESERVATION_DECIDED'
     ORDER BY aggregate_version
    RETURNING id, event_id, audience, reservation_id, aggregate_version
), recipient AS (
    INSERT INTO notification (event_notification_id, user_id, user_type, title, body)
    SELECT notified_event.id, person.user_id, person.user_type, 'title', 'body'
      FROM notified_event
      JOIN person ON CASE notified_event.audience
                         WHEN 'RESTAURANT' THEN person.user_type = 'RESTAURANT_USER' AND person.restaurant_id = 10
                         WHEN 'CUSTOMER' THEN person.user_type = 'CUSTOMER' AND person.user_id = 5
                         WHEN 'ADMIN' THEN person.user_type = 'ADMIN_USER'
                         ELSE person.user_type = 'AGENCY_USER' AND person.agency_id = 7
                     END
    RETURNING id, event_notification_id, user_type, user_id, split_part(user_type, '_', 1) AS audience
), outbox AS (
    INSERT INTO notification_outbox (notification_id, notification_type, status, published_at)
    SELECT id, audience, 'PUBLISHED', clock_timestamp() FROM recipient
), send AS (
    INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id, reservation_id,
                                           aggregate_version, recipient, shared_event_id, is_sent, outcome, last_error,
                                           sent_at, attempt_count)
    SELECT recipient.id, channel, recipient.user_type, recipient.user_id, 10, notified_event.reservation_id,
           notified_event.aggregate_version, CASE WHEN channel = 'SLACK' THEN '#ops' END,
           CASE WHEN channel = 'SLACK' AND NOT is_skipped THEN notified_event.event_id END, NOT is_skipped,
           CASE WHEN is_skipped THEN 'SKIPPED' ELSE 'SENT' END,
           CASE WHEN is_skipped THEN 'sent once for all who share the address' END,
           CASE WHEN NOT is_skipped THEN now() + notified_event.aggregate_version * interval '1 millisecond' END,
           CASE WHEN is_skipped THEN 0 ELSE 1 END
      FROM recipient
      JOIN notified_event ON notified_event.id = recipient.event_notification_id
     CROSS JOIN LATERAL unnest(CASE recipient.audience
                                   WHEN 'ADMIN' THEN ARRAY['EMAIL', 'SLACK']
                                   WHEN 'AGENCY' THEN ARRAY['EMAIL']
                                   ELSE ARRAY['EMAIL', 'SMS', 'PUSH']
                               END) AS channel
     CROSS JOIN LATERAL (SELECT channel = 'SLACK' AND recipient.user_id <> 1) AS sharing (is_skipped)
    RETURNING id, channel_type, outcome
), call AS (
    INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt, started_at, finished_at, outcome)
    SELECT id, channel_type, 1, now(), clock_timestamp(), 'SENT' FROM send WHERE outcome = 'SENT'
)
INSERT INTO notification_action (event_notification_id, reservation_id, reservation_version, resulting_version, actor_id,
                                 actor_type, action_type, first_to_act)
SELECT notified_event.id, reserved.id, 1, 2, 50, 'RESTAURANT_USER', 'CONFIRMED', true
  FROM reserved, notified_event
 WHERE notified_event.audience = 'RESTAURANT'
