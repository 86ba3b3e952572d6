-- One database role per service, with the rights that it needs. ws-gateway has none: it does not use the database.
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

GRANT SELECT ON person, undeliverable_address, processed_event, channel_send_attempt TO tablebell_reservation_api;
GRANT SELECT, INSERT, UPDATE ON restaurant, agency, customer, restaurant_users, admin_users, agency_users
    TO tablebell_reservation_api;
GRANT SELECT, INSERT, DELETE ON restaurant_closure TO tablebell_reservation_api;
GRANT SELECT, INSERT ON management_change TO tablebell_reservation_api;
GRANT SELECT, INSERT, UPDATE ON reservation, event_outbox, notification_preference, idempotency_key, notification_action,
    outbox_intervention TO tablebell_reservation_api;
GRANT DELETE ON idempotency_key TO tablebell_reservation_api;
GRANT SELECT, UPDATE ON event_notification, notification, notification_restaurant, notification_customer,
    notification_admin, notification_agency, notification_outbox, notification_channel_send TO tablebell_reservation_api;

GRANT SELECT, UPDATE, DELETE ON event_outbox TO tablebell_event_relay;

GRANT SELECT ON restaurant, customer, restaurant_users, admin_users, agency_users, agency, person, reservation,
    notification_preference, undeliverable_address, notification_action TO tablebell_notification_fanout;
GRANT SELECT, INSERT, DELETE ON processed_event TO tablebell_notification_fanout;
GRANT SELECT, INSERT, UPDATE ON event_notification, notification, notification_restaurant, notification_customer,
    notification_admin, notification_agency, notification_channel_send TO tablebell_notification_fanout;
GRANT SELECT, INSERT, UPDATE, DELETE ON notification_outbox TO tablebell_notification_fanout;
GRANT USAGE ON SEQUENCE notification_id_seq TO tablebell_notification_fanout;

GRANT SELECT, UPDATE, DELETE ON notification_channel_send TO tablebell_channel_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON channel_send_attempt TO tablebell_channel_dispatcher;
GRANT SELECT, INSERT, UPDATE, DELETE ON undeliverable_address TO tablebell_channel_dispatcher;
GRANT EXECUTE ON FUNCTION count_addresses(text) TO tablebell_channel_dispatcher;

GRANT SELECT, INSERT, DELETE ON live_frame TO tablebell_notification_fanout;
GRANT SELECT, INSERT, UPDATE, DELETE ON listener_catch_up TO tablebell_notification_fanout;
-- The columns that catching up reads.
GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, aggregate_version, payload, headers, status, created_at,
              published_at, discarded_at) ON event_outbox TO tablebell_notification_fanout;
GRANT SELECT ON own_notification TO tablebell_notification_fanout;

GRANT SELECT ON own_notification, inbox TO tablebell_reservation_api;
GRANT DELETE ON undeliverable_address TO tablebell_reservation_api;
GRANT EXECUTE ON FUNCTION reached_limit TO tablebell_reservation_api;
GRANT INSERT ON admin_read TO tablebell_reservation_api;
