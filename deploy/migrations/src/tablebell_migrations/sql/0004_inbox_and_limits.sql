-- Views and functions over the tables.

-- The notifications that still belong to their owner. Staff who changed the restaurant, and agency users who changed the
-- agency, do not see the notifications of the former one.
CREATE VIEW own_notification WITH (security_invoker = true) AS
    SELECT n.user_type, n.user_id, n.id, n.event_notification_id, en.event_type, en.audience, en.reservation_id,
           en.aggregate_version, n.title, n.body, en.properties || n.properties AS properties, en.shared_read, n.is_read,
           CASE WHEN en.shared_read THEN en.read_by_user_id WHEN n.is_read THEN n.user_id END AS read_by_user_id,
           n.created_at
      FROM notification AS n
      JOIN event_notification AS en ON en.id = n.event_notification_id
      JOIN person ON person.user_type = n.user_type AND person.user_id = n.user_id
     WHERE CASE n.user_type
               WHEN 'RESTAURANT_USER' THEN person.restaurant_id = en.restaurant_id
               WHEN 'AGENCY_USER' THEN person.agency_id = (SELECT agency_id FROM reservation WHERE id = en.reservation_id)
               ELSE true
           END;

-- A notification as its owner sees it. A shared notification and a proposed time are resolved by the first action on that
-- version of the reservation, however it was done and even if it was done before the notification existed. DISMISSED hides a
-- notification for its owner and resolves nothing.
CREATE VIEW inbox WITH (security_invoker = true) AS
    SELECT n.*, first.action_type, first.actor_type, first.actor_id, first.actor_name, first.acted_at, first.outcome,
           hiding.id IS NOT NULL AS is_hidden
      FROM own_notification AS n
      LEFT JOIN LATERAL (
          SELECT a.action_type, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at AS acted_at,
                 a.outcome
            FROM notification_action AS a
            LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
           WHERE a.reservation_id = n.reservation_id
             AND a.reservation_version = n.aggregate_version
             AND a.first_to_act
             AND (n.shared_read OR n.event_type = 'RESERVATION_POSTPONED')
           LIMIT 1
      ) AS first ON true
      LEFT JOIN LATERAL (
          SELECT a.id
            FROM notification_action AS a
           WHERE a.reservation_id = n.reservation_id
             AND a.reservation_version = n.aggregate_version
             AND a.notification_id = n.id
             AND a.action_type = 'DISMISSED'
           LIMIT 1
      ) AS hiding ON true;

-- The notifications that wait for an answer of their owner: for staff, requests that nobody has answered; for a customer, a
-- proposed time. Read from the undecided reservations, so the cost does not depend on the length of the inbox.
CREATE VIEW open_notification WITH (security_invoker = true) AS
    SELECT n.user_type, n.user_id, n.id
      FROM restaurant_users AS staff
      JOIN reservation AS r ON r.restaurant_id = staff.restaurant_id AND r.status = 'NOT_ACCEPTED'
      JOIN event_notification AS en
        ON en.reservation_id = r.id AND en.aggregate_version = r.version AND en.audience = 'RESTAURANT' AND en.shared_read
      JOIN notification AS n
        ON n.event_notification_id = en.id AND n.user_type = 'RESTAURANT_USER' AND n.user_id = staff.id
     WHERE NOT EXISTS (SELECT
                         FROM notification_action AS a
                        WHERE a.reservation_id = r.id AND a.reservation_version = r.version
                          AND (a.first_to_act OR (a.notification_id = n.id AND a.action_type = 'DISMISSED')))
    UNION ALL
    SELECT n.user_type, n.user_id, n.id
      FROM reservation AS r
      JOIN event_notification AS en
        ON en.reservation_id = r.id AND en.aggregate_version = r.version AND en.audience = 'CUSTOMER'
           AND en.event_type = 'RESERVATION_POSTPONED'
      JOIN notification AS n
        ON n.event_notification_id = en.id AND n.user_type = 'CUSTOMER' AND n.user_id = r.customer_id
     WHERE r.status = 'POSTPONED'
       AND NOT EXISTS (SELECT
                         FROM notification_action AS a
                        WHERE a.reservation_id = r.id AND a.reservation_version = r.version
                          AND (a.first_to_act OR (a.notification_id = n.id AND a.action_type = 'DISMISSED')));

-- The limit that a customer's request or change would exceed, and after how many seconds to try again; no row if there is
-- none. A limit of 0 is off. This is a function because each statement of it sees what was committed before the statement
-- began: requests for one customer take turns by the lock, so the last one counts all the others.
CREATE FUNCTION reached_limit(
    the_customer bigint,
    the_restaurant bigint,
    changer_type text,            -- the person whose changes are counted; NULL for a new reservation
    changer_id bigint,
    the_reservation bigint,       -- the reservation that is changed; NULL for a new one
    the_time timestamptz,         -- the time of the table; NULL if it does not change
    table_gap interval,
    most_open integer,            -- of the customer
    most_open_at_restaurant integer,
    most_requests integer,        -- of the customer within an hour
    most_changes integer          -- of the person within an hour
) RETURNS TABLE (reached text, retry_seconds integer)
LANGUAGE plpgsql AS $$
DECLARE
    since timestamptz;
BEGIN
    IF table_gap > interval '0' OR most_open > 0 OR most_requests > 0 OR most_changes > 0 THEN
        PERFORM pg_advisory_xact_lock(44, hashint8(the_customer));
    END IF;
    IF table_gap > interval '0' AND the_time IS NOT NULL AND EXISTS (
           SELECT
             FROM reservation
            WHERE customer_id = the_customer
              AND slot_time > the_time - table_gap AND slot_time < the_time + table_gap
              AND status IN ('NOT_ACCEPTED', 'ACCEPTED', 'POSTPONED')
              AND id IS DISTINCT FROM the_reservation) THEN
        RETURN QUERY SELECT 'table_gap', NULL::integer;
        RETURN;
    END IF;
    IF most_changes > 0 THEN
        SELECT created_at INTO since
          FROM notification_action
         WHERE actor_type = changer_type AND actor_id = changer_id
           AND action_type = 'CUSTOM' AND resulting_version IS NOT NULL
         ORDER BY created_at DESC
        OFFSET most_changes - 1 LIMIT 1;
        IF since > clock_timestamp() - interval '1 hour' THEN
            RETURN QUERY SELECT 'changes_per_hour', ceil(extract(epoch FROM since + interval '1 hour' - clock_timestamp()))::integer;
            RETURN;
        END IF;
    END IF;
    IF most_requests > 0 THEN
        SELECT created_at INTO since
          FROM reservation
         WHERE customer_id = the_customer
         ORDER BY id DESC
        OFFSET most_requests - 1 LIMIT 1;
        IF since > clock_timestamp() - interval '1 hour' THEN
            RETURN QUERY SELECT 'requests_per_hour', ceil(extract(epoch FROM since + interval '1 hour' - clock_timestamp()))::integer;
            RETURN;
        END IF;
    END IF;
    -- The restaurant may answer at any moment: try again in five minutes.
    IF most_open > 0 AND most_open <= (
           SELECT count(*)
             FROM reservation
            WHERE customer_id = the_customer AND status IN ('NOT_ACCEPTED', 'POSTPONED') AND slot_time > clock_timestamp()) THEN
        RETURN QUERY SELECT 'open_requests_per_customer', 300;
        RETURN;
    END IF;
    IF most_open_at_restaurant > 0 AND most_open_at_restaurant <= (
           SELECT count(*)
             FROM (SELECT
                     FROM reservation
                    WHERE restaurant_id = the_restaurant AND status IN ('NOT_ACCEPTED', 'POSTPONED')
                      AND slot_time > clock_timestamp()
                    LIMIT most_open_at_restaurant) AS undecided) THEN
        RETURN QUERY SELECT 'open_requests_per_restaurant', 300;
    END IF;
END
$$;
REVOKE ALL ON FUNCTION reached_limit FROM PUBLIC;

-- Which admin read which personal data, and when. The API can insert rows, but not read or change them.
CREATE TABLE admin_read (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor_id        bigint NOT NULL,
    subject         text NOT NULL CHECK (subject IN ('trace')),
    reservation_id  bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX admin_read_reservation ON admin_read (reservation_id, created_at);
