-- The three outboxes (L0, L1, L2) and the notifications.
--
-- A row is open, done or dead. Claims read partial indexes of the open rows, so their cost does not depend on the history.
-- Each row is updated twice: the fillfactor leaves room in the page, and autovacuum runs early.

-- L0: an event, committed with the change of the reservation that caused it.
CREATE TABLE event_outbox (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id           uuid NOT NULL DEFAULT gen_random_uuid(),
    event_type         text NOT NULL,
    aggregate_type     text NOT NULL DEFAULT 'reservation',
    aggregate_id       bigint NOT NULL,
    aggregate_version  integer NOT NULL,
    -- The relay that owns the partition publishes the event. All events of an aggregate are in one partition.
    partition          smallint GENERATED ALWAYS AS (abs(aggregate_id % 16)) STORED,
    -- The name of a planned event (reminder-24h, …). An aggregate has at most one open event of each name.
    schedule_key       text,
    payload            jsonb NOT NULL,
    headers            jsonb NOT NULL DEFAULT '{}',
    status             text NOT NULL DEFAULT 'PENDING'
                       CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'FAILED', 'DEAD', 'DISCARDED')),
    retry_count        integer NOT NULL DEFAULT 0,
    last_error         text,
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When the row was first due. NULL until its due time is moved into the future; a requeue clears it. Without it, a row
    -- that is postponed again and again never looks late.
    first_due_at       timestamptz,
    lease_token        uuid,
    lease_until        timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at       timestamptz,
    discarded_at       timestamptz,
    CHECK ((status = 'PROCESSING') = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX event_outbox_event_id ON event_outbox (event_id);
CREATE INDEX event_outbox_claim ON event_outbox (available_at, id, partition)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');
-- The open events of an aggregate, by version and then by id: an event is claimed only together with the open ones before it.
CREATE INDEX event_outbox_order ON event_outbox (aggregate_type, aggregate_id, aggregate_version, id)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');
-- All open statuses: a change from one open status to another must never violate the index.
CREATE UNIQUE INDEX event_outbox_schedule ON event_outbox (aggregate_type, aggregate_id, schedule_key)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED') AND schedule_key IS NOT NULL;
CREATE INDEX event_outbox_dead ON event_outbox (id) WHERE status = 'DEAD';
CREATE INDEX event_outbox_dead_age ON event_outbox (available_at) WHERE status = 'DEAD';
CREATE INDEX event_outbox_done ON event_outbox ((coalesce(published_at, discarded_at)))
    WHERE status IN ('PUBLISHED', 'DISCARDED');
-- The finished events of an aggregate. The open ones are left out, so that the planner never uses it for a claim.
CREATE INDEX event_outbox_story ON event_outbox (aggregate_type, aggregate_id, aggregate_version)
    WHERE status IN ('PUBLISHED', 'DEAD', 'DISCARDED');

CREATE TABLE processed_event (
    event_id      uuid NOT NULL,
    listener      text NOT NULL
                  CHECK (listener IN ('RESTAURANT_LISTENER', 'CUSTOMER_LISTENER', 'ADMIN_LISTENER', 'AGENCY_LISTENER')),
    processed_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (event_id, listener)
);
CREATE INDEX processed_event_age ON processed_event (processed_at);

-- Listeners whose queue was deleted. Before such a listener consumes again, it reads the missed events from event_outbox.
CREATE TABLE listener_catch_up (
    listener      text PRIMARY KEY
                  CHECK (listener IN ('RESTAURANT_LISTENER', 'CUSTOMER_LISTENER', 'ADMIN_LISTENER', 'AGENCY_LISTENER')),
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What an audience is notified of: one row per event and audience.
CREATE TABLE event_notification (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id           uuid NOT NULL,
    event_type         text NOT NULL,
    audience           text NOT NULL CHECK (audience IN ('RESTAURANT', 'CUSTOMER', 'ADMIN', 'AGENCY')),
    reservation_id     bigint NOT NULL,
    restaurant_id      bigint NOT NULL,
    aggregate_version  integer NOT NULL,
    properties         jsonb NOT NULL DEFAULT '{}',
    headers            jsonb NOT NULL DEFAULT '{}',
    shared_read        boolean NOT NULL DEFAULT false,
    is_read            boolean NOT NULL DEFAULT false,
    read_by_user_id    bigint,
    read_at            timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX event_notification_event ON event_notification (event_id, audience);
CREATE INDEX event_notification_reservation ON event_notification (reservation_id, aggregate_version);
CREATE INDEX event_notification_age ON event_notification (created_at);

-- Who is notified: one row per person.
CREATE SEQUENCE notification_id_seq AS bigint;
CREATE TABLE notification (
    id                     bigint NOT NULL DEFAULT nextval('notification_id_seq'),
    event_notification_id  bigint NOT NULL,
    user_id                bigint NOT NULL,
    user_type              text NOT NULL,
    title                  text NOT NULL,
    body                   text NOT NULL,
    properties             jsonb NOT NULL DEFAULT '{}',
    is_read                boolean NOT NULL DEFAULT false,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, user_type),
    -- A redelivered message creates no second notification.
    UNIQUE (event_notification_id, user_id, user_type)
) PARTITION BY LIST (user_type);
ALTER SEQUENCE notification_id_seq OWNED BY notification.id;
CREATE TABLE notification_restaurant PARTITION OF notification FOR VALUES IN ('RESTAURANT_USER');
CREATE TABLE notification_customer PARTITION OF notification FOR VALUES IN ('CUSTOMER');
CREATE TABLE notification_admin PARTITION OF notification FOR VALUES IN ('ADMIN_USER');
CREATE TABLE notification_agency PARTITION OF notification FOR VALUES IN ('AGENCY_USER');
CREATE INDEX notification_inbox ON notification (user_id, id DESC);
CREATE INDEX notification_unread ON notification (user_id, id DESC) WHERE NOT is_read;

-- L1: a notification whose channel sends have to be created.
CREATE TABLE notification_outbox (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id    bigint NOT NULL,
    notification_type  text NOT NULL CHECK (notification_type IN ('RESTAURANT', 'CUSTOMER', 'ADMIN', 'AGENCY')),
    -- The expander that owns the partition expands the row. All rows of a reservation are in one partition.
    partition          smallint NOT NULL DEFAULT 0 CHECK (partition BETWEEN 0 AND 15),
    status             text NOT NULL DEFAULT 'PENDING'
                       CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'FAILED', 'DEAD', 'DISCARDED')),
    retry_count        integer NOT NULL DEFAULT 0,
    last_error         text,
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_due_at       timestamptz,
    lease_token        uuid,
    lease_until        timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at       timestamptz,
    discarded_at       timestamptz,
    CHECK ((status = 'PROCESSING') = (lease_token IS NOT NULL)),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX notification_outbox_notification ON notification_outbox (notification_id, notification_type);
CREATE INDEX notification_outbox_claim ON notification_outbox (available_at, id, partition)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');
CREATE INDEX notification_outbox_dead ON notification_outbox (id) WHERE status = 'DEAD';
CREATE INDEX notification_outbox_dead_age ON notification_outbox (available_at) WHERE status = 'DEAD';
CREATE INDEX notification_outbox_done ON notification_outbox ((coalesce(published_at, discarded_at)))
    WHERE status IN ('PUBLISHED', 'DISCARDED');

-- Live frames that RabbitMQ did not accept, stored in the transaction that created them. They are published in the order of
-- their ids, and deleted, as soon as RabbitMQ accepts messages again.
CREATE TABLE live_frame (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    message     bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- L2: a message to one person on one channel. is_sent: NULL = to do, true = the provider took it, false = it will not be sent.
CREATE TABLE notification_channel_send (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id      bigint NOT NULL,
    channel_type         text NOT NULL CHECK (channel_type IN ('EMAIL', 'SMS', 'PUSH', 'SLACK')),
    user_type            text NOT NULL,
    user_id              bigint NOT NULL,
    restaurant_id        bigint NOT NULL,   -- claims are fair between restaurants
    reservation_id       bigint,
    aggregate_version    integer,
    recipient            text,              -- the address at the time the row was created
    -- The event, on the one row that carries its message to an address that several people share (a Slack webhook). The rows
    -- of the others are SKIPPED.
    shared_event_id      uuid,
    message              jsonb NOT NULL DEFAULT '{}',  -- the rendered text, in the form of its channel
    headers              jsonb NOT NULL DEFAULT '{}',  -- correlation id and traceparent
    confidential         boolean NOT NULL DEFAULT false,  -- the message is deleted as soon as the row is finished
    is_sent              boolean,
    -- Why a row is finished. EXHAUSTED and UNDELIVERABLE rows are dead: an operator may requeue them.
    outcome              text CHECK (outcome IN ('SENT', 'SKIPPED', 'WITHDRAWN', 'EXPIRED', 'UNDELIVERABLE', 'EXHAUSTED',
                                                 'DISCARDED')),
    -- Why a row need not be sent any more. A row that a dispatcher holds is withdrawn if its call does not send it; a dead row
    -- is not sent by a requeue.
    withdrawn_because    text,
    sent_at              timestamptz,
    attempt_count        integer NOT NULL DEFAULT 0,
    last_error           text,
    next_attempt_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_due_at         timestamptz,
    not_after            timestamptz,
    lease_token          uuid,
    lease_until          timestamptz,
    provider_message_id  text,
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK ((lease_token IS NULL) = (lease_until IS NULL)),
    CHECK (is_sent IS NULL OR lease_token IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX notification_channel_send_once ON notification_channel_send (notification_id, channel_type);
CREATE UNIQUE INDEX notification_channel_send_shared ON notification_channel_send (shared_event_id, recipient)
    WHERE shared_event_id IS NOT NULL;
CREATE INDEX notification_channel_send_claim ON notification_channel_send (channel_type, next_attempt_at, id)
    WHERE is_sent IS NULL;
-- The next restaurant with an open row, and its oldest row, in one step each.
CREATE INDEX notification_channel_send_fair ON notification_channel_send (channel_type, restaurant_id, next_attempt_at, id)
    WHERE is_sent IS NULL;
-- The open rows of a person, reservation and channel, in order: a row is claimed only when none is open before it.
CREATE INDEX notification_channel_send_order
    ON notification_channel_send (reservation_id, user_id, user_type, channel_type, aggregate_version, id)
    WHERE is_sent IS NULL;
-- The due times of the messages to a recipient that are sent or open, for the limit per hour.
CREATE INDEX notification_channel_send_recipient ON notification_channel_send (channel_type, recipient, next_attempt_at)
    WHERE is_sent IS NOT FALSE;
-- The SMS of the last day and those in flight, for the limit per day.
CREATE INDEX notification_channel_send_sms_sent ON notification_channel_send (sent_at)
    WHERE channel_type = 'SMS' AND is_sent;
CREATE INDEX notification_channel_send_sms_leased ON notification_channel_send (lease_until)
    WHERE channel_type = 'SMS' AND lease_until IS NOT NULL;
CREATE INDEX notification_channel_send_dead ON notification_channel_send (id)
    WHERE is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE');
CREATE INDEX notification_channel_send_dead_age ON notification_channel_send (updated_at)
    WHERE is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE');
CREATE INDEX notification_channel_send_done ON notification_channel_send (updated_at)
    WHERE is_sent IS NOT NULL AND coalesce(outcome, 'SKIPPED') NOT IN ('EXHAUSTED', 'UNDELIVERABLE');
-- Every scrape of the dispatcher counts the withdrawn rows.
CREATE INDEX notification_channel_send_withdrawn ON notification_channel_send (channel_type) WHERE outcome = 'WITHDRAWN';

-- However a row with a confidential message is finished, the same statement deletes the message. It cannot be sent again, so
-- a requeue closes the row as EXPIRED.
CREATE FUNCTION delete_confidential_message() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, public
    AS $$
BEGIN
    NEW.message := '{}';
    NEW.not_after := least(NEW.not_after, now());
    RETURN NEW;
END
$$;
CREATE TRIGGER notification_channel_send_confidential BEFORE UPDATE OF is_sent ON notification_channel_send
    FOR EACH ROW WHEN (NEW.confidential AND NEW.is_sent IS NOT NULL) EXECUTE FUNCTION delete_confidential_message();

-- Every call to a provider. The row is committed before the call, so that a crash leaves a record of what may have been sent.
CREATE TABLE channel_send_attempt (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel_send_id      bigint NOT NULL REFERENCES notification_channel_send (id) ON DELETE CASCADE,
    channel_type         text NOT NULL,
    attempt              integer NOT NULL,
    started_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at          timestamptz,
    outcome              text,
    detail               text,
    provider_message_id  text
);
CREATE INDEX channel_send_attempt_send ON channel_send_attempt (channel_send_id, id);

-- What people did with a notification or a reservation.
CREATE TABLE notification_action (
    id                     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Without foreign keys: the notifications are purged earlier than the actions.
    event_notification_id  bigint,
    notification_id        bigint,
    reservation_id         bigint NOT NULL REFERENCES reservation (id),
    -- The version of the reservation that was decided on. A decision may be made before the notification exists.
    reservation_version    integer NOT NULL,
    -- The version that the action created; NULL if it changed nothing (DISMISSED, CUSTOM by staff).
    resulting_version      integer,
    -- That version as the pages tell it (tablebell.inbox.Outcome). The reservation itself may have changed since.
    outcome                jsonb,
    actor_id               bigint NOT NULL,
    actor_type             text NOT NULL,
    action_type            text NOT NULL
                           CHECK (action_type IN ('CONFIRMED', 'REJECTED', 'POSTPONED', 'DISMISSED', 'CUSTOM')),
    first_to_act           boolean NOT NULL,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX notification_action_first ON notification_action (event_notification_id) WHERE first_to_act;
CREATE INDEX notification_action_reservation ON notification_action (reservation_id, reservation_version);
CREATE UNIQUE INDEX notification_action_result ON notification_action (reservation_id, resulting_version)
    WHERE resulting_version IS NOT NULL;
-- reached_limit counts the changes of a person.
CREATE INDEX notification_action_changes ON notification_action (actor_type, actor_id, created_at)
    WHERE action_type = 'CUSTOM' AND resulting_version IS NOT NULL;

-- What operators did with dead rows. `make republish` uses the owner's role and has no actor.
CREATE TABLE outbox_intervention (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    level       text NOT NULL,
    act         text NOT NULL CHECK (act IN ('requeue', 'discard', 'republish', 'clear')),
    row_ids     bigint[] NOT NULL,
    filter      jsonb NOT NULL DEFAULT '{}',
    actor_id    bigint,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Up to when rows past their retention were deleted. `make audit` checks only what was created later.
CREATE TABLE purge_horizon (
    retention      text PRIMARY KEY,
    purged_before  timestamptz NOT NULL
);
