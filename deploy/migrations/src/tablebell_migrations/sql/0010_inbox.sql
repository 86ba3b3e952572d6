-- Who handled what, as people see it.

-- Which version of the reservation an act made; NULL for one that changed nothing (DISMISSED, CUSTOM by staff).
ALTER TABLE notification_action ADD COLUMN resulting_version integer;
CREATE UNIQUE INDEX notification_action_result ON notification_action (reservation_id, resulting_version)
    WHERE resulting_version IS NOT NULL;

-- A notification as its owner sees it. What several share, and a proposed time, is resolved by the first who acted on that
-- version of the reservation, by whichever door and even before there was a notification of it.
CREATE VIEW inbox WITH (security_invoker = true) AS
    SELECT n.user_type, n.user_id, n.id, n.event_notification_id, en.event_type, en.audience, en.reservation_id,
           en.aggregate_version, n.title, n.body, en.properties || n.properties AS properties, en.shared_read, n.is_read,
           CASE WHEN en.shared_read THEN en.read_by_user_id WHEN n.is_read THEN n.user_id END AS read_by_user_id,
           n.created_at, first.action_type, first.actor_type, first.actor_id, first.actor_name, first.acted_at
      FROM notification AS n
      JOIN event_notification AS en ON en.id = n.event_notification_id
      LEFT JOIN LATERAL (
          SELECT a.action_type, a.actor_type, a.actor_id, person.name AS actor_name, a.created_at AS acted_at
            FROM notification_action AS a
            LEFT JOIN person ON person.user_type = a.actor_type AND person.user_id = a.actor_id
           WHERE a.reservation_id = en.reservation_id
             AND a.reservation_version = en.aggregate_version
             AND a.first_to_act
             AND (en.shared_read OR en.event_type = 'RESERVATION_POSTPONED')
           LIMIT 1
      ) AS first ON true;
GRANT SELECT ON inbox TO tablebell_reservation_api;
