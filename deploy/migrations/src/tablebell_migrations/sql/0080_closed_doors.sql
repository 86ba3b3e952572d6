-- Who may see what.

-- The notifications that are still their owner's. Staff who changed the restaurant, and an agency's users who changed the
-- agency, do not see what the former one was told.
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
GRANT SELECT ON own_notification TO tablebell_reservation_api, tablebell_notification_fanout;

CREATE OR REPLACE VIEW inbox WITH (security_invoker = true) AS
    SELECT n.*, first.action_type, first.actor_type, first.actor_id, first.actor_name, first.acted_at
      FROM own_notification AS n
      LEFT JOIN LATERAL (
          SELECT a.action_type, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at AS acted_at
            FROM notification_action AS a
            LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
           WHERE a.reservation_id = n.reservation_id
             AND a.reservation_version = n.aggregate_version
             AND a.first_to_act
             AND (n.shared_read OR n.event_type = 'RESERVATION_POSTPONED')
           LIMIT 1
      ) AS first ON true;

-- Properties are made for each audience: the note is for the guest and the restaurant, the actor for the restaurant and the
-- operators. What was stored before loses what its audience may not see.
UPDATE event_notification
   SET properties = CASE audience
                        WHEN 'ADMIN' THEN properties - 'note'
                        WHEN 'AGENCY' THEN properties - ARRAY['note', 'actor']
                        ELSE properties - 'actor'
                    END
 WHERE (audience IN ('ADMIN', 'AGENCY') AND properties ->> 'note' IS NOT NULL)
    OR (audience IN ('CUSTOMER', 'AGENCY') AND properties ->> 'actor' IS NOT NULL);

-- Nobody can be bombed: what reached_limit counts has an index.
CREATE INDEX reservation_undecided ON reservation (restaurant_id, slot_time) WHERE status IN ('NOT_ACCEPTED', 'POSTPONED');
CREATE INDEX notification_action_changes ON notification_action (actor_type, actor_id, created_at)
    WHERE action_type = 'CUSTOM' AND resulting_version IS NOT NULL;

-- The limit that a customer's request or change would pass, and in how many seconds to try again; nothing if there is none.
-- A limit of 0 is none. It is a function since each of its statements sees what was committed before it began: requests for
-- one customer take turns by the lock, so that the last of them counts all the others.
CREATE FUNCTION reached_limit(
    the_customer bigint,
    the_restaurant bigint,
    changer_type text,            -- who changes a reservation, whose changes are counted; NULL for a new one
    changer_id bigint,
    the_reservation bigint,       -- the one that is changed, which is not in its own way; NULL for a new one
    the_time timestamptz,         -- at which the customer wants a table; NULL when it stays
    table_gap interval,
    most_open integer,            -- of the customer
    most_open_at_restaurant integer,
    most_requests integer,        -- of the customer within an hour
    most_changes integer          -- of whoever changes, within an hour
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
    -- An answer may come at any moment: in five minutes it is worth trying again.
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
GRANT EXECUTE ON FUNCTION reached_limit TO tablebell_reservation_api;

-- Which admin looked at whose affairs, and when. The API adds to it and can neither read nor change it.
CREATE TABLE admin_read (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    actor_id        bigint NOT NULL,
    subject         text NOT NULL CHECK (subject IN ('trace')),
    reservation_id  bigint NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX admin_read_reservation ON admin_read (reservation_id, created_at);
GRANT INSERT ON admin_read TO tablebell_reservation_api;
