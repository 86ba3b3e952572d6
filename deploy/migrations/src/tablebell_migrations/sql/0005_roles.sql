-- One database role per service, with the rights that its SQL uses, to the column. ws-gateway has none: it does not use
-- the database. test_grants.py compares the grants with the statements: it names what is missing and what is more.
-- Roles belong to the cluster, not to the database: the migration of another database may have created them already.

DO $$
DECLARE
    service text;
BEGIN
    FOREACH service IN ARRAY ARRAY['reservation_api', 'event_relay', 'notification_fanout', 'channel_dispatcher'] LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I LOGIN', 'tablebell_' || service);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$;

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO
    tablebell_reservation_api, tablebell_event_relay, tablebell_notification_fanout, tablebell_channel_dispatcher;

-- reservation-api. The records of what people did are insert-only: notification_action, outbox_intervention, admin_read,
-- management_change.
-- It closes and reopens outbox rows, but never changes what they say or to whom.
GRANT INSERT (actor_id, subject, reservation_id) ON admin_read TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (external_id, name, email, phone, fcm_token, locale, timezone, role),
      UPDATE (external_id, name, email, phone, fcm_token, locale, timezone, role, active, updated_at)
   ON admin_users TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (external_id, name, email, phone, fcm_token, locale, timezone, agency_id),
      UPDATE (external_id, name, email, phone, fcm_token, locale, timezone, agency_id, active, updated_at)
   ON agency_users TO tablebell_reservation_api;
GRANT SELECT, INSERT (external_id, name), UPDATE (external_id, name, updated_at) ON agency TO tablebell_reservation_api;
GRANT SELECT (id, channel_send_id, attempt, started_at, finished_at, outcome, detail, provider_message_id)
   ON channel_send_attempt TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (external_id, name, email, phone, fcm_token, locale, timezone, agency_id),
      UPDATE (external_id, name, email, phone, fcm_token, locale, timezone, agency_id, active, updated_at)
   ON customer TO tablebell_reservation_api;
GRANT SELECT (id, event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version, properties, shared_read,
              is_read, read_by_user_id, read_at),
      UPDATE (is_read, read_by_user_id, read_at)
   ON event_notification TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (event_type, aggregate_type, aggregate_id, aggregate_version, schedule_key, payload, headers, available_at,
              created_at),
      UPDATE (status, retry_count, last_error, available_at, first_due_at, lease_token, lease_until, discarded_at)
   ON event_outbox TO tablebell_reservation_api;
GRANT SELECT (user_type, user_id, key, request_hash, response, created_at),
      INSERT (user_type, user_id, key, request_hash),
      UPDATE (request_hash, status_code, response, created_at),
      DELETE
   ON idempotency_key TO tablebell_reservation_api;
GRANT SELECT ON inbox TO tablebell_reservation_api;
GRANT SELECT ON managed_person TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (subject_type, subject_id, act, before, after, actor_type, actor_id)
   ON management_change TO tablebell_reservation_api;
GRANT SELECT, UPDATE (is_read) ON notification TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (event_notification_id, notification_id, reservation_id, reservation_version, resulting_version, outcome,
              actor_id, actor_type, action_type, first_to_act)
   ON notification_action TO tablebell_reservation_api;
GRANT SELECT (id, notification_id, channel_type, user_type, user_id, recipient, is_sent, outcome, withdrawn_because, sent_at,
              attempt_count, last_error, next_attempt_at, not_after, lease_token, lease_until, provider_message_id,
              created_at, updated_at),
      UPDATE (is_sent, outcome, withdrawn_because, attempt_count, last_error, next_attempt_at, first_due_at, lease_token,
              lease_until, updated_at)
   ON notification_channel_send TO tablebell_reservation_api;
-- The mail with the link of a sign-in.
GRANT INSERT (notification_id, channel_type, user_type, user_id, restaurant_id, recipient, message, headers, confidential,
              is_sent, outcome, last_error, not_after)
   ON notification_channel_send TO tablebell_reservation_api;
GRANT USAGE ON SEQUENCE notification_id_seq TO tablebell_reservation_api;
GRANT SELECT (id, notification_id, notification_type, status, retry_count, last_error, available_at, created_at,
              published_at, discarded_at),
      UPDATE (status, retry_count, available_at, first_due_at, discarded_at)
   ON notification_outbox TO tablebell_reservation_api;
GRANT SELECT (user_type, user_id, channels, event_types, quiet_from, quiet_until),
      INSERT (user_type, user_id, channels, event_types, quiet_from, quiet_until),
      UPDATE (channels, event_types, quiet_from, quiet_until, updated_at)
   ON notification_preference TO tablebell_reservation_api;
GRANT SELECT ON open_notification TO tablebell_reservation_api;
GRANT INSERT (level, act, row_ids, filter, actor_id) ON outbox_intervention TO tablebell_reservation_api;
GRANT SELECT ON own_notification TO tablebell_reservation_api;
GRANT SELECT (user_type, user_id, name, restaurant_id, agency_id, role, active) ON person TO tablebell_reservation_api;
GRANT SELECT ON processed_event TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (customer_id, restaurant_id, agency_id, party_size, slot_time, note),
      UPDATE (party_size, slot_time, proposed_time, note, status, version, updated_at)
   ON reservation TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (external_id, name, address, phone, timezone, locale, accepts_reservations, max_party_size, opening_hours,
              sender_name, reply_to),
      UPDATE (external_id, name, address, phone, timezone, locale, accepts_reservations, max_party_size, opening_hours,
              sender_name, reply_to, updated_at)
   ON restaurant TO tablebell_reservation_api;
GRANT SELECT, INSERT, DELETE ON restaurant_closure TO tablebell_reservation_api;
GRANT SELECT,
      INSERT (external_id, name, email, phone, fcm_token, locale, timezone, restaurant_id, role),
      UPDATE (external_id, name, email, phone, fcm_token, locale, timezone, restaurant_id, role, active, updated_at)
   ON restaurant_users TO tablebell_reservation_api;
GRANT SELECT, INSERT (user_type, user_id, token_id), DELETE ON revocation TO tablebell_reservation_api;
GRANT SELECT (id, address_hash, code_hash, challenge, people, expires_at, used_at, created_at),
      INSERT (address_hash, code_hash, challenge, people, expires_at),
      UPDATE (used_at),
      DELETE
   ON sign_in TO tablebell_reservation_api;
GRANT SELECT (id, user_type, user_id, token_hash, previous_hash, salt, rotated_at, expires_at),
      INSERT (id, user_type, user_id, token_hash, expires_at),
      UPDATE (token_hash, previous_hash, salt, rotated_at, expires_at),
      DELETE
   ON sign_in_session TO tablebell_reservation_api;
GRANT SELECT, DELETE ON undeliverable_address TO tablebell_reservation_api;
GRANT EXECUTE ON FUNCTION reached_limit TO tablebell_reservation_api;

-- event-relay
GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, aggregate_version, partition, payload, headers, status,
              retry_count, available_at, first_due_at, lease_token, lease_until, created_at, published_at, discarded_at),
      UPDATE (status, retry_count, last_error, available_at, first_due_at, lease_token, lease_until, published_at),
      DELETE
   ON event_outbox TO tablebell_event_relay;

-- notification-fanout. It updates no event_notification: SELECT FOR SHARE needs the right to update any one column.
GRANT SELECT (id, role, name, email, phone, fcm_token, locale, timezone, active)
   ON admin_users TO tablebell_notification_fanout;
GRANT SELECT (id, agency_id, name, email, phone, fcm_token, locale, timezone, active)
   ON agency_users TO tablebell_notification_fanout;
GRANT SELECT (id, name, email, phone, fcm_token, locale, timezone, agency_id, active)
   ON customer TO tablebell_notification_fanout;
GRANT SELECT (id, event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version, properties, headers,
              shared_read, is_read, read_by_user_id, created_at),
      INSERT (event_id, event_type, audience, reservation_id, restaurant_id, aggregate_version, properties, headers,
              shared_read),
      UPDATE (headers),
      DELETE
   ON event_notification TO tablebell_notification_fanout;
GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, aggregate_version, payload, headers, status,
              created_at, published_at, discarded_at)
   ON event_outbox TO tablebell_notification_fanout;
GRANT SELECT, INSERT (listener), UPDATE (requested_at), DELETE ON listener_catch_up TO tablebell_notification_fanout;
GRANT SELECT (id, message), INSERT (message), DELETE ON live_frame TO tablebell_notification_fanout;
GRANT SELECT,
      INSERT (event_notification_id, user_id, user_type, title, body),
      DELETE
   ON notification TO tablebell_notification_fanout;
GRANT SELECT (reservation_id, reservation_version, outcome, actor_id, actor_type, action_type, first_to_act, created_at)
   ON notification_action TO tablebell_notification_fanout;
GRANT SELECT (id, notification_id, channel_type, recipient, is_sent, outcome, withdrawn_because, last_error, next_attempt_at,
              lease_token, lease_until, shared_event_id),
      INSERT (notification_id, channel_type, user_type, user_id, restaurant_id, reservation_id, aggregate_version, recipient,
              message, headers, is_sent, outcome, withdrawn_because, last_error, next_attempt_at, not_after,
              shared_event_id),
      UPDATE (is_sent, outcome, withdrawn_because, last_error, lease_token, lease_until, updated_at)
   ON notification_channel_send TO tablebell_notification_fanout;
GRANT SELECT (id, notification_id, notification_type, partition, status, retry_count, available_at, first_due_at,
              lease_token, lease_until, created_at, published_at, discarded_at),
      INSERT (notification_id, notification_type, partition),
      UPDATE (status, retry_count, last_error, available_at, first_due_at, lease_token, lease_until, published_at),
      DELETE
   ON notification_outbox TO tablebell_notification_fanout;
GRANT SELECT (user_type, user_id, channels, event_types, quiet_from, quiet_until)
   ON notification_preference TO tablebell_notification_fanout;
GRANT SELECT (user_type, user_id, event_notification_id) ON own_notification TO tablebell_notification_fanout;
GRANT SELECT (user_type, user_id, name, email, phone, fcm_token, locale, timezone, restaurant_id, agency_id,
              active)
   ON person TO tablebell_notification_fanout;
GRANT SELECT, INSERT (event_id, listener), DELETE ON processed_event TO tablebell_notification_fanout;
GRANT SELECT (id, agency_id, slot_time, status, version) ON reservation TO tablebell_notification_fanout;
GRANT SELECT (id, address, phone, sender_name, reply_to) ON restaurant TO tablebell_notification_fanout;
GRANT SELECT (id, restaurant_id, role, name, email, phone, fcm_token, locale, timezone, active)
   ON restaurant_users TO tablebell_notification_fanout;
GRANT SELECT (user_type, user_id, channel_type, address, reason, silences)
   ON undeliverable_address TO tablebell_notification_fanout;
GRANT USAGE ON SEQUENCE notification_id_seq TO tablebell_notification_fanout;

-- channel-dispatcher. It counts the addresses of all people without the right to read them.
GRANT SELECT (id, channel_send_id),
      INSERT (channel_send_id, channel_type, attempt),
      UPDATE (finished_at, outcome, detail, provider_message_id)
   ON channel_send_attempt TO tablebell_channel_dispatcher;
GRANT SELECT,
      UPDATE (is_sent, outcome, sent_at, attempt_count, last_error, next_attempt_at, first_due_at, lease_token, lease_until,
              provider_message_id, updated_at),
      DELETE
   ON notification_channel_send TO tablebell_channel_dispatcher;
GRANT SELECT (id, user_type, user_id, channel_type, address, reason, silences, marked_at),
      INSERT (user_type, user_id, channel_type, address, reason, silences),
      UPDATE (address, reason, silences, marked_at),
      DELETE
   ON undeliverable_address TO tablebell_channel_dispatcher;
GRANT EXECUTE ON FUNCTION count_addresses(text) TO tablebell_channel_dispatcher;

GRANT SELECT, INSERT, UPDATE (purged_before) ON purge_horizon
   TO tablebell_event_relay, tablebell_notification_fanout, tablebell_channel_dispatcher;
