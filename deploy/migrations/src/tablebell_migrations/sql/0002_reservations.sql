-- Reservations.

CREATE TABLE reservation (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer_id    bigint NOT NULL REFERENCES customer (id),
    restaurant_id  bigint NOT NULL REFERENCES restaurant (id),
    agency_id      bigint REFERENCES agency (id),
    party_size     integer NOT NULL CHECK (party_size BETWEEN 1 AND 1000),
    slot_time      timestamptz NOT NULL,
    proposed_time  timestamptz,
    note           text CHECK (length(note) <= 500),
    status         text NOT NULL DEFAULT 'NOT_ACCEPTED'
                   CHECK (status IN ('NOT_ACCEPTED', 'ACCEPTED', 'REJECTED', 'POSTPONED', 'CANCELLED', 'ARRIVED', 'NO_SHOW')),
    version        integer NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 80);
CREATE INDEX reservation_customer ON reservation (customer_id, id DESC);
CREATE INDEX reservation_agency ON reservation (agency_id, id DESC) WHERE agency_id IS NOT NULL;
CREATE INDEX reservation_restaurant ON reservation (restaurant_id, slot_time, id);
-- A customer cannot have two tables at the same time.
CREATE UNIQUE INDEX reservation_no_double_booking ON reservation (customer_id, slot_time)
    WHERE status IN ('NOT_ACCEPTED', 'ACCEPTED', 'POSTPONED');
-- reached_limit counts the undecided requests of a restaurant.
CREATE INDEX reservation_undecided ON reservation (restaurant_id, slot_time) WHERE status IN ('NOT_ACCEPTED', 'POSTPONED');

-- The response to the first request with an Idempotency-Key; NULL while that request is running.
CREATE TABLE idempotency_key (
    user_type     text NOT NULL,
    user_id       bigint NOT NULL,
    key           text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_hash  bytea NOT NULL,
    status_code   integer,
    response      jsonb,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (user_type, user_id, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);
