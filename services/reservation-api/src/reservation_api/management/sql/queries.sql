-- The queries of the management of restaurants, agencies and people.

-- name: find_member
-- $1 user type · $2 user id
SELECT name, role, restaurant_id, agency_id, active
  FROM person
 WHERE user_type = $1 AND user_id = $2

-- name: find_managed_person
-- $1 user type · $2 user id
SELECT *
  FROM managed_person
 WHERE user_type = $1 AND user_id = $2

-- name: list_people
-- In the order of their ids. $1 user type · $2 after this id · $3 part of the name, an address or the external id, or NULL ·
-- $4 restaurant or NULL · $5 agency or NULL · $6 whether active, or NULL · $7 limit
SELECT *
  FROM managed_person
 WHERE user_type = $1
   AND user_id > $2
   AND ($3::text IS NULL OR strpos(lower(concat_ws(' ', name, email, phone, external_id)), lower($3)) > 0)
   AND ($4::bigint IS NULL OR restaurant_id = $4)
   AND ($5::bigint IS NULL OR agency_id = $5)
   AND ($6::boolean IS NULL OR active = $6)
 ORDER BY user_id
 LIMIT $7

-- name: find_people_by_keys
-- UNION and IN, so that each part is a join: with OR or ANY, a generic plan compares every row with every key.
-- $1 user type · $2 external ids · $3 e-mail addresses in lower case · $4 telephone numbers
SELECT * FROM managed_person WHERE user_type = $1 AND external_id IN (SELECT unnest($2::text[]))
UNION
SELECT * FROM managed_person WHERE user_type = $1 AND lower(email) IN (SELECT unnest($3::text[]))
UNION
SELECT * FROM managed_person WHERE user_type = $1 AND phone IN (SELECT unnest($4::text[]))
 ORDER BY user_id

-- name: append_people
-- Returns the ids in the order of $2. Staff have the language and timezone of their restaurant unless they are given.
-- $1 user type · $2 the people, as a JSON array of objects
WITH given AS MATERIALIZED (
    SELECT *
      FROM ROWS FROM (jsonb_to_recordset($2) AS (
               external_id text, name text, email text, phone text, fcm_token text, locale text, timezone text,
               restaurant_id bigint, agency_id bigint, role text)) WITH ORDINALITY AS person (
               external_id, name, email, phone, fcm_token, locale, timezone, restaurant_id, agency_id, role, position)
), new_customer AS (
    INSERT INTO customer (external_id, name, email, phone, fcm_token, locale, timezone, agency_id)
    SELECT external_id, name, email, phone, fcm_token, coalesce(locale, 'it'), coalesce(timezone, 'Europe/Rome'), agency_id
      FROM given
     WHERE $1 = 'CUSTOMER'
     ORDER BY position
    RETURNING id
), new_staff AS (
    INSERT INTO restaurant_users (external_id, name, email, phone, fcm_token, locale, timezone, restaurant_id, role)
    SELECT given.external_id, given.name, given.email, given.phone, given.fcm_token,
           coalesce(given.locale, restaurant.locale, 'it'), coalesce(given.timezone, restaurant.timezone, 'Europe/Rome'),
           given.restaurant_id, given.role
      FROM given
      LEFT JOIN restaurant ON restaurant.id = given.restaurant_id
     WHERE $1 = 'RESTAURANT_USER'
     ORDER BY position
    RETURNING id
), new_admin AS (
    INSERT INTO admin_users (external_id, name, email, phone, fcm_token, locale, timezone, role)
    SELECT external_id, name, email, phone, fcm_token, coalesce(locale, 'it'), coalesce(timezone, 'Europe/Rome'), role
      FROM given
     WHERE $1 = 'ADMIN_USER'
     ORDER BY position
    RETURNING id
), new_agent AS (
    INSERT INTO agency_users (external_id, name, email, phone, fcm_token, locale, timezone, agency_id)
    SELECT external_id, name, email, phone, fcm_token, coalesce(locale, 'it'), coalesce(timezone, 'Europe/Rome'), agency_id
      FROM given
     WHERE $1 = 'AGENCY_USER'
     ORDER BY position
    RETURNING id
)
SELECT id FROM new_customer
UNION ALL
SELECT id FROM new_staff
UNION ALL
SELECT id FROM new_admin
UNION ALL
SELECT id FROM new_agent
 ORDER BY id

-- name: change_people_if_unchanged
-- Returns the ids of the changed people. A person whose updated_at is not the given one was changed by someone else.
-- $1 user type · $2 the people with all their fields, as a JSON array of objects
WITH given AS MATERIALIZED (
    SELECT *
      FROM jsonb_to_recordset($2) AS person (
               user_id bigint, external_id text, name text, email text, phone text, fcm_token text, locale text,
               timezone text, restaurant_id bigint, agency_id bigint, role text, active boolean, updated_at timestamptz)
), changed_customer AS (
    UPDATE customer AS c
       SET external_id = given.external_id, name = given.name, email = given.email, phone = given.phone,
           fcm_token = given.fcm_token, locale = given.locale, timezone = given.timezone, agency_id = given.agency_id,
           active = given.active, updated_at = greatest(clock_timestamp(), c.updated_at + interval '1 microsecond')
      FROM given
     WHERE $1 = 'CUSTOMER' AND c.id = given.user_id AND c.updated_at = given.updated_at
    RETURNING c.id
), changed_staff AS (
    UPDATE restaurant_users AS s
       SET external_id = given.external_id, name = given.name, email = given.email, phone = given.phone,
           fcm_token = given.fcm_token, locale = given.locale, timezone = given.timezone,
           restaurant_id = given.restaurant_id, role = given.role, active = given.active,
           updated_at = greatest(clock_timestamp(), s.updated_at + interval '1 microsecond')
      FROM given
     WHERE $1 = 'RESTAURANT_USER' AND s.id = given.user_id AND s.updated_at = given.updated_at
    RETURNING s.id
), changed_admin AS (
    UPDATE admin_users AS a
       SET external_id = given.external_id, name = given.name, email = given.email, phone = given.phone,
           fcm_token = given.fcm_token, locale = given.locale, timezone = given.timezone, role = given.role,
           active = given.active, updated_at = greatest(clock_timestamp(), a.updated_at + interval '1 microsecond')
      FROM given
     WHERE $1 = 'ADMIN_USER' AND a.id = given.user_id AND a.updated_at = given.updated_at
    RETURNING a.id
), changed_agent AS (
    UPDATE agency_users AS a
       SET external_id = given.external_id, name = given.name, email = given.email, phone = given.phone,
           fcm_token = given.fcm_token, locale = given.locale, timezone = given.timezone, agency_id = given.agency_id,
           active = given.active, updated_at = greatest(clock_timestamp(), a.updated_at + interval '1 microsecond')
      FROM given
     WHERE $1 = 'AGENCY_USER' AND a.id = given.user_id AND a.updated_at = given.updated_at
    RETURNING a.id
)
SELECT id FROM changed_customer
UNION ALL
SELECT id FROM changed_staff
UNION ALL
SELECT id FROM changed_admin
UNION ALL
SELECT id FROM changed_agent

-- name: lock_roles
-- Serializes changes that could remove the last manager of a restaurant, or the last admin.
-- $1 user type · $2 restaurant or NULL
SELECT pg_advisory_xact_lock(46, hashtext(concat_ws(':', $1::text, $2::bigint)))

-- name: count_others_with_role
-- Requires lock_roles. $1 user type · $2 restaurant or NULL · $3 role · $4 not this person
SELECT count(*)
  FROM person
 WHERE user_type = $1 AND restaurant_id IS NOT DISTINCT FROM $2 AND role = $3 AND active AND user_id <> $4

-- name: lock_expansion
-- Waits for expansions in progress, which may have read the person as active, and holds back new ones until the commit.
-- So the statement that follows sees every send of the person. Expansions share the lock (notification-fanout, lock_events).
SELECT pg_advisory_xact_lock(45, 0)

-- name: find_unsent_of_person
-- The event notifications with unsent or dead sends of a person. $1 user type · $2 user id
SELECT DISTINCT n.event_notification_id
  FROM notification_channel_send AS s
  JOIN notification AS n ON n.id = s.notification_id AND n.user_type = s.user_type
 WHERE s.user_type = $1
   AND s.user_id = $2
   AND (s.is_sent IS NULL OR (s.is_sent = false AND s.outcome IN ('EXHAUSTED', 'UNDELIVERABLE')))
 ORDER BY n.event_notification_id

-- name: list_restaurants
-- In the order of their ids. $1 after this id · $2 part of the name, the address or the external id, or NULL · $3 limit
SELECT r.*,
       coalesce((SELECT jsonb_agg(jsonb_build_object('day', c.day, 'reason', c.reason) ORDER BY c.day)
                   FROM restaurant_closure AS c
                  WHERE c.restaurant_id = r.id AND c.day >= current_date - 1), '[]') AS closures
  FROM restaurant AS r
 WHERE r.id > $1
   AND ($2::text IS NULL OR strpos(lower(concat_ws(' ', r.name, r.address, r.external_id)), lower($2)) > 0)
 ORDER BY r.id
 LIMIT $3

-- name: find_managed_restaurant
-- $1 restaurant
SELECT r.*,
       coalesce((SELECT jsonb_agg(jsonb_build_object('day', c.day, 'reason', c.reason) ORDER BY c.day)
                   FROM restaurant_closure AS c
                  WHERE c.restaurant_id = r.id AND c.day >= current_date - 1), '[]') AS closures
  FROM restaurant AS r
 WHERE r.id = $1

-- name: append_restaurant
-- $1 the restaurant, as a JSON object
INSERT INTO restaurant (external_id, name, address, phone, timezone, locale, accepts_reservations, max_party_size,
                        opening_hours, sender_name, reply_to)
SELECT external_id, name, address, phone, timezone, locale, accepts_reservations, max_party_size,
       nullif(opening_hours, 'null'), sender_name, reply_to
  FROM jsonb_to_record($1) AS given (
           external_id text, name text, address text, phone text, timezone text, locale text, accepts_reservations boolean,
           max_party_size integer, opening_hours jsonb, sender_name text, reply_to text)
RETURNING id

-- name: change_restaurant_if_unchanged
-- $1 the restaurant with all its fields, as a JSON object
UPDATE restaurant AS r
   SET external_id = given.external_id, name = given.name, address = given.address, phone = given.phone,
       timezone = given.timezone, locale = given.locale, accepts_reservations = given.accepts_reservations,
       max_party_size = given.max_party_size, opening_hours = nullif(given.opening_hours, 'null'),
       sender_name = given.sender_name, reply_to = given.reply_to,
       updated_at = greatest(clock_timestamp(), r.updated_at + interval '1 microsecond')
  FROM jsonb_to_record($1) AS given (
           id bigint, external_id text, name text, address text, phone text, timezone text, locale text,
           accepts_reservations boolean, max_party_size integer, opening_hours jsonb, sender_name text, reply_to text,
           updated_at timestamptz)
 WHERE r.id = given.id AND r.updated_at = given.updated_at
RETURNING r.id

-- name: delete_closures
-- The coming ones; past closures are kept. $1 restaurant
DELETE FROM restaurant_closure
 WHERE restaurant_id = $1 AND day >= current_date - 1

-- name: append_closures
-- $1 restaurant · $2 days · $3 the reason of each, or NULL
INSERT INTO restaurant_closure (restaurant_id, day, reason)
SELECT $1, day, reason
  FROM unnest($2::date[], $3::text[]) AS closure (day, reason)
ON CONFLICT DO NOTHING

-- name: find_restaurant_ids
-- Which of the restaurants exist. $1 ids
SELECT id FROM restaurant WHERE id = ANY ($1::bigint[])

-- name: find_restaurant_by_external_id
-- $1 external id
SELECT id FROM restaurant WHERE external_id = $1

-- name: list_agencies
-- In the order of their ids. $1 after this id · $2 part of the name or the external id, or NULL · $3 limit
SELECT *
  FROM agency
 WHERE id > $1 AND ($2::text IS NULL OR strpos(lower(concat_ws(' ', name, external_id)), lower($2)) > 0)
 ORDER BY id
 LIMIT $3

-- name: find_agency
-- $1 agency
SELECT * FROM agency WHERE id = $1

-- name: append_agency
-- $1 external id or NULL · $2 name
INSERT INTO agency (external_id, name) VALUES ($1, $2) RETURNING id

-- name: change_agency_if_unchanged
-- $1 agency · $2 external id or NULL · $3 name · $4 the updated_at that was read
UPDATE agency
   SET external_id = $2, name = $3, updated_at = greatest(clock_timestamp(), updated_at + interval '1 microsecond')
 WHERE id = $1 AND updated_at = $4
RETURNING id

-- name: find_agency_ids
-- Which of the agencies exist. $1 ids
SELECT id FROM agency WHERE id = ANY ($1::bigint[])

-- name: find_agency_by_external_id
-- $1 external id
SELECT id FROM agency WHERE external_id = $1

-- name: append_changes
-- $1 actor's type, $2 actor's id, or NULL for an operator's command · $3 the changes, as a JSON array of objects
INSERT INTO management_change (subject_type, subject_id, act, before, after, actor_type, actor_id)
SELECT subject_type, subject_id, act, before, after, $1, $2
  FROM jsonb_to_recordset($3) AS change (subject_type text, subject_id bigint, act text, before jsonb, after jsonb)

-- name: list_changes
-- The newest first. $1 before this id · $2 subject's type or NULL · $3 subject's id or NULL · $4 actor's type or NULL ·
-- $5 actor's id or NULL · $6 limit
SELECT c.*, actor.name AS actor_name
  FROM management_change AS c
  LEFT JOIN person AS actor ON actor.user_type = c.actor_type AND actor.user_id = c.actor_id
 WHERE c.id < $1
   AND ($2::text IS NULL OR c.subject_type = $2)
   AND ($3::bigint IS NULL OR c.subject_id = $3)
   AND ($4::text IS NULL OR c.actor_type = $4)
   AND ($5::bigint IS NULL OR c.actor_id = $5)
 ORDER BY c.id DESC
 LIMIT $6
