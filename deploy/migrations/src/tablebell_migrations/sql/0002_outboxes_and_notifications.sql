-- The three levels, and what they carry.
--
-- A level's row is open (to do), done, or dead. Partial indexes hold the open rows only, so that claiming costs the
-- same whatever the history holds. Rows are rewritten twice in their life: room in the page and an eager autovacuum.

-- L0: what happened, committed with the reservation that it tells of.
CREATE TABLE event_outbox (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id           uuid NOT NULL DEFAULT gen_random_uuid(),
    event_type         text NOT NULL,
    aggregate_type     text NOT NULL DEFAULT 'reservation',
    aggregate_id       bigint NOT NULL,
    aggregate_version  integer NOT NULL,
    -- Which relay publishes it: a partition has one owner at a time, and an aggregate lives in one partition.
    partition          smallint GENERATED ALWAYS AS (abs(aggregate_id % 16)) STORED,
    -- Names a planned event (reminder-24h, …), of which an aggregate has one open at most.
    schedule_key       text,
    payload            jsonb NOT NULL,
    headers            jsonb NOT NULL DEFAULT '{}',
    status             text NOT NULL DEFAULT 'PENDING'
                       CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'FAILED', 'DEAD', 'DISCARDED')),
    retry_count        integer NOT NULL DEFAULT 0,
    last_error         text,
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
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
-- What an aggregate still has to tell, in order: an event is claimed only together with the open ones before it.
CREATE INDEX event_outbox_order ON event_outbox (aggregate_type, aggregate_id, aggregate_version)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');
CREATE UNIQUE INDEX event_outbox_schedule ON event_outbox (aggregate_type, aggregate_id, schedule_key)
    WHERE status = 'PENDING' AND schedule_key IS NOT NULL;
CREATE INDEX event_outbox_dead ON event_outbox (id) WHERE status = 'DEAD';
CREATE INDEX event_outbox_done ON event_outbox ((coalesce(published_at, discarded_at)))
    WHERE status IN ('PUBLISHED', 'DISCARDED');
-- The rest of an aggregate's story. Without the open rows, so that a claim cannot stray into the history by it.
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
    -- A person hears of one thing once, whatever is redelivered.
    UNIQUE (event_notification_id, user_id, user_type)
) PARTITION BY LIST (user_type);
ALTER SEQUENCE notification_id_seq OWNED BY notification.id;
CREATE TABLE notification_restaurant PARTITION OF notification FOR VALUES IN ('RESTAURANT_USER');
CREATE TABLE notification_customer PARTITION OF notification FOR VALUES IN ('CUSTOMER');
CREATE TABLE notification_admin PARTITION OF notification FOR VALUES IN ('ADMIN_USER');
CREATE TABLE notification_agency PARTITION OF notification FOR VALUES IN ('AGENCY_USER');
CREATE INDEX notification_inbox ON notification (user_id, id DESC);
CREATE INDEX notification_unread ON notification (user_id, id DESC) WHERE NOT is_read;

-- L1: whom to tell.
CREATE TABLE notification_outbox (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id    bigint NOT NULL,
    notification_type  text NOT NULL CHECK (notification_type IN ('RESTAURANT', 'CUSTOMER', 'ADMIN', 'AGENCY')),
    -- Which expander has it: what one reservation has to tell stays in one pair of hands, and so in order.
    partition          smallint NOT NULL DEFAULT 0 CHECK (partition BETWEEN 0 AND 15),
    status             text NOT NULL DEFAULT 'PENDING'
                       CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'FAILED', 'DEAD', 'DISCARDED')),
    retry_count        integer NOT NULL DEFAULT 0,
    last_error         text,
    available_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
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
CREATE INDEX notification_outbox_done ON notification_outbox ((coalesce(published_at, discarded_at)))
    WHERE status IN ('PUBLISHED', 'DISCARDED');

-- L2: how to tell them. is_sent: NULL = to do, true = the provider took it, false = it will not be sent.
CREATE TABLE notification_channel_send (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id      bigint NOT NULL,
    channel_type         text NOT NULL CHECK (channel_type IN ('EMAIL', 'SMS', 'PUSH', 'SLACK')),
    user_type            text NOT NULL,
    user_id              bigint NOT NULL,
    restaurant_id        bigint NOT NULL,   -- whose burst it belongs to: no restaurant may crowd out another
    recipient            text,              -- the address as it was when the row was made
    message              jsonb NOT NULL DEFAULT '{}',  -- the rendered text, as its channel needs it
    headers              jsonb NOT NULL DEFAULT '{}',  -- correlation id and traceparent
    is_sent              boolean,
    -- Why a row is finished; EXHAUSTED and UNDELIVERABLE are the dead ones, which an operator may requeue.
    outcome              text CHECK (outcome IN ('SENT', 'SKIPPED', 'WITHDRAWN', 'EXPIRED', 'UNDELIVERABLE', 'EXHAUSTED',
                                                 'DISCARDED')),
    sent_at              timestamptz,
    attempt_count        integer NOT NULL DEFAULT 0,
    last_error           text,
    next_attempt_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
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
CREATE INDEX notification_channel_send_claim ON notification_channel_send (channel_type, next_attempt_at, id)
    WHERE is_sent IS NULL;
CREATE INDEX notification_channel_send_dead ON notification_channel_send (id)
    WHERE is_sent = false AND outcome IN ('EXHAUSTED', 'UNDELIVERABLE');
CREATE INDEX notification_channel_send_done ON notification_channel_send (updated_at)
    WHERE is_sent IS NOT NULL;

-- Every call to a provider: written before the call, so that after a crash it is known what may have been sent.
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

CREATE TABLE notification_action (
    id                     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_notification_id  bigint REFERENCES event_notification (id),
    notification_id        bigint,
    reservation_id         bigint NOT NULL REFERENCES reservation (id),
    -- The version of the reservation that was decided on: a decision taken before the notification existed still counts.
    reservation_version    integer NOT NULL,
    actor_id               bigint NOT NULL,
    actor_type             text NOT NULL,
    action_type            text NOT NULL
                           CHECK (action_type IN ('CONFIRMED', 'REJECTED', 'POSTPONED', 'DISMISSED', 'CUSTOM')),
    first_to_act           boolean NOT NULL,
    created_at             timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX notification_action_first ON notification_action (event_notification_id) WHERE first_to_act;
CREATE INDEX notification_action_reservation ON notification_action (reservation_id, reservation_version);

-- What operators did to the dead, by whom and when.
CREATE TABLE outbox_intervention (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    level       text NOT NULL,
    act         text NOT NULL CHECK (act IN ('requeue', 'discard')),
    row_ids     bigint[] NOT NULL,
    filter      jsonb NOT NULL DEFAULT '{}',
    actor_id    bigint NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
