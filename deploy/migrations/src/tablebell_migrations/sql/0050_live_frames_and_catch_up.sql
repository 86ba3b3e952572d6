-- Live frames that RabbitMQ did not take, in the transaction that made them. They are published in the order of their id,
-- and deleted, as soon as it takes messages again.
CREATE TABLE live_frame (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message     bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Listeners whose queue was deleted: before such a listener consumes again, it reads from event_outbox what the queue
-- never brought.
CREATE TABLE listener_catch_up (
    listener      text PRIMARY KEY
                  CHECK (listener IN ('RESTAURANT_LISTENER', 'CUSTOMER_LISTENER', 'ADMIN_LISTENER', 'AGENCY_LISTENER')),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

GRANT SELECT, INSERT, DELETE ON live_frame TO tablebell_notification_fanout;
GRANT SELECT, INSERT, UPDATE, DELETE ON listener_catch_up TO tablebell_notification_fanout;
-- What catching up reads, and nothing else.
GRANT SELECT (id, event_id, event_type, aggregate_type, aggregate_id, aggregate_version, payload, headers, status, created_at,
              published_at, discarded_at) ON event_outbox TO tablebell_notification_fanout;
