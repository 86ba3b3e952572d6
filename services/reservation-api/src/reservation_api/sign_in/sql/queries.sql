-- The queries of the sign-in. Codes, refresh tokens and addresses are compared by their SHA-256.

-- name: lock_address
-- Requests for one address take turns, so that each counts the others. The lock ends with the transaction.
-- $1 address hash
SELECT pg_advisory_xact_lock(47, hashtext(encode($1::bytea, 'hex')))

-- name: find_people_by_email
-- The active people with an address. The first one's language is that of the mail.
-- $1 address in lower case
SELECT user_type, user_id, name, email, locale
  FROM managed_person
 WHERE lower(email) = $1 AND active
 ORDER BY array_position(ARRAY['RESTAURANT_USER', 'ADMIN_USER', 'AGENCY_USER', 'CUSTOMER'], user_type), user_id

-- name: append_sign_in
-- The request and its mail, unless the address has reached its limit. For an unknown address the row of the mail is SKIPPED: the
-- same work. Returns whether the limit allowed it. The fair claim of L2 counts sign-in mails as those of a restaurant 0.
-- $1 address hash · $2 code hash · $3 challenge or NULL · $4 people · $5 lifetime · $6 limit per hour
-- $7 user type · $8 user id · $9 recipient, or NULL if nobody has the address · $10 message · $11 headers
WITH request AS (
    INSERT INTO sign_in (address_hash, code_hash, challenge, people, expires_at)
    SELECT $1, $2, $3, $4::text[], now() + $5::interval
     WHERE (SELECT count(*) FROM sign_in WHERE address_hash = $1 AND created_at > now() - interval '1 hour') < $6
    RETURNING expires_at
), mail AS (
    INSERT INTO notification_channel_send (notification_id, channel_type, user_type, user_id, restaurant_id, recipient, message,
                                           headers, confidential, is_sent, outcome, last_error, not_after)
    SELECT nextval('notification_id_seq'), 'EMAIL', $7, $8, 0, $9::text, $10::jsonb, $11::jsonb, true,
           CASE WHEN $9 IS NULL THEN false END, CASE WHEN $9 IS NULL THEN 'SKIPPED' END,
           CASE WHEN $9 IS NULL THEN 'nobody has this address' END, expires_at
      FROM request
)
SELECT EXISTS (SELECT FROM request)

-- name: find_sign_in_for_update
-- A request whose code can still be exchanged, and whether this is the browser that asked.
-- $1 code hash · $2 hash of the browser's verifier, or NULL
SELECT id, address_hash, people, challenge IS NULL OR coalesce(challenge = $2, false) AS same_browser
  FROM sign_in
 WHERE code_hash = $1 AND used_at IS NULL AND expires_at > clock_timestamp()
   FOR UPDATE

-- name: list_choices
-- Those of the people who are still active and still have the address.
-- $1 people · $2 address hash
SELECT p.user_type, p.user_id, p.name, p.role, r.name AS restaurant_name, a.name AS agency_name
  FROM unnest($1::text[]) AS given (person)
  JOIN managed_person AS p
    ON p.user_type = split_part(given.person, ':', 1) AND p.user_id = split_part(given.person, ':', 2)::bigint
  LEFT JOIN restaurant AS r ON r.id = p.restaurant_id
  LEFT JOIN agency AS a ON a.id = p.agency_id AND p.user_type = 'AGENCY_USER'
 WHERE p.active AND ($2::bytea IS NULL OR sha256(convert_to(lower(p.email), 'UTF8')) = $2)

-- name: lock_active_person
-- A deactivation waits until the new session is committed, and then ends it. Returns no row for an inactive person.
-- $1 user type · $2 user id
WITH a_customer AS (
    SELECT id FROM customer WHERE $1 = 'CUSTOMER' AND id = $2 AND active FOR SHARE
), a_restaurant_user AS (
    SELECT id FROM restaurant_users WHERE $1 = 'RESTAURANT_USER' AND id = $2 AND active FOR SHARE
), an_admin AS (
    SELECT id FROM admin_users WHERE $1 = 'ADMIN_USER' AND id = $2 AND active FOR SHARE
), an_agency_user AS (
    SELECT id FROM agency_users WHERE $1 = 'AGENCY_USER' AND id = $2 AND active FOR SHARE
)
SELECT id FROM a_customer UNION ALL SELECT id FROM a_restaurant_user UNION ALL SELECT id FROM an_admin
UNION ALL SELECT id FROM an_agency_user

-- name: use_sign_in
-- $1 id
UPDATE sign_in SET used_at = clock_timestamp() WHERE id = $1 AND used_at IS NULL

-- name: append_session
-- $1 id · $2 user type · $3 user id · $4 token hash · $5 lifetime
INSERT INTO sign_in_session (id, user_type, user_id, token_hash, expires_at)
VALUES ($1, $2, $3, $4, now() + $5::interval)

-- name: find_session_for_update
-- A session that has not expired, of an active person, and what the given token is to it. Refreshes of one session take turns.
-- $1 id · $2 hash of the given token · $3 grace
SELECT s.user_type, s.user_id, s.salt, s.token_hash = $2 AS is_current,
       coalesce(s.previous_hash = $2 AND s.rotated_at > clock_timestamp() - $3::interval, false) AS is_in_grace
  FROM sign_in_session AS s
  JOIN person AS p USING (user_type, user_id)
 WHERE s.id = $1 AND s.expires_at > clock_timestamp() AND p.active
   FOR UPDATE OF s

-- name: rotate_session
-- $1 id · $2 hash of the token that is replaced · $3 hash of the new one · $4 salt · $5 lifetime
UPDATE sign_in_session
   SET token_hash = $3, previous_hash = $2, salt = $4, rotated_at = clock_timestamp(), expires_at = now() + $5::interval
 WHERE id = $1 AND token_hash = $2

-- name: purge_sign_ins
-- $1 retention · $2 limit
DELETE FROM sign_in
 WHERE id IN (SELECT id FROM sign_in WHERE created_at < now() - $1::interval ORDER BY created_at LIMIT $2)

-- name: purge_sessions
-- $1 time after the expiry · $2 limit
DELETE FROM sign_in_session
 WHERE id IN (SELECT id FROM sign_in_session WHERE expires_at <= now() - $1::interval ORDER BY expires_at LIMIT $2)
