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
