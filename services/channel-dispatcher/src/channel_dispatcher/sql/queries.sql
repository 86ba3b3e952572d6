-- The dispatcher's statements on L2. A claim raises attempt_count and inserts the attempt, so that both are committed
-- before the provider is called. A result that does not count as an attempt lowers attempt_count again.

-- name: claim_fair
-- Round-robin over the restaurants: a claim continues after the restaurant where the last one stopped, and takes an equal
-- share from each restaurant with claimable rows. A row waits while an earlier row of the same person, reservation and
-- channel is open. Expired, withdrawn, exhausted and undeliverable rows are finished here. The first result row is a
-- summary without an id: where the round stopped, and whether there is more to claim.
-- $1 channel · $2 limit · $3 token · $4 lease · $5 last restaurant of the previous round · $6 maximum of attempts
-- $7 maximum of restaurants to visit · $8 whether to take over expired leases
WITH RECURSIVE visit AS (
    SELECT $5::bigint AS restaurant_id, NULL::timestamptz AS oldest, 0 AS number, false AS wrapped
    UNION ALL
    SELECT coalesce(ahead.restaurant_id, -1), ahead.next_attempt_at, visit.number + 1,
           visit.wrapped OR ahead.restaurant_id IS NULL
      FROM visit
      LEFT JOIN LATERAL (
               SELECT s.restaurant_id, s.next_attempt_at
                 FROM notification_channel_send AS s
                WHERE s.is_sent IS NULL AND s.channel_type = $1 AND s.restaurant_id > visit.restaurant_id
                ORDER BY s.restaurant_id, s.next_attempt_at, s.id
                LIMIT 1) AS ahead ON true
     WHERE visit.number < $7
       AND NOT (visit.wrapped AND coalesce(ahead.restaurant_id > $5, true))
), claimable AS MATERIALIZED (
    -- Restaurants with claimable rows. One more than the limit shows that there is more to claim.
    SELECT due_restaurant.restaurant_id, due_restaurant.number
      FROM (SELECT restaurant_id, number FROM visit WHERE oldest <= now() ORDER BY number) AS due_restaurant
     CROSS JOIN LATERAL (
               SELECT
                 FROM notification_channel_send AS s
                WHERE s.is_sent IS NULL
                  AND s.channel_type = $1
                  AND s.restaurant_id = due_restaurant.restaurant_id
                  AND s.next_attempt_at <= now()
                  AND (s.lease_until IS NULL OR ($8 AND s.lease_until <= now()))
                  AND NOT EXISTS (SELECT
                                    FROM notification_channel_send AS before
                                   WHERE before.is_sent IS NULL
                                     AND before.reservation_id = s.reservation_id
                                     AND before.user_id = s.user_id
                                     AND before.user_type = s.user_type
                                     AND before.channel_type = s.channel_type
                                     AND (before.aggregate_version, before.id) < (s.aggregate_version, s.id))
                ORDER BY s.next_attempt_at, s.id
                LIMIT 1) AS first
     ORDER BY due_restaurant.number
     LIMIT $2 + 1
), picked AS MATERIALIZED (
    SELECT restaurant_id, number FROM claimable ORDER BY number LIMIT $2
), share AS MATERIALIZED (
    SELECT greatest(1, $2 / greatest(1, count(*))) AS rows FROM picked
), due AS MATERIALIZED (
    SELECT mine.id, picked.number, mine.next_attempt_at,
           CASE WHEN mine.withdrawn_because IS NOT NULL THEN 'WITHDRAWN'
                WHEN mine.not_after <= now() THEN 'EXPIRED'
                WHEN mine.attempt_count >= $6 THEN 'EXHAUSTED'
                WHEN EXISTS (SELECT
                               FROM undeliverable_address AS dead
                              WHERE dead.user_type = mine.user_type AND dead.user_id = mine.user_id
                                AND dead.channel_type = mine.channel_type AND dead.address = mine.recipient
                                AND dead.silences
                                -- A row that became due after the mark was requeued by an operator: send it.
                                AND dead.marked_at >= mine.next_attempt_at) THEN 'SKIPPED'
           END AS final_outcome
      FROM picked
     CROSS JOIN LATERAL (
               SELECT s.*
                 FROM notification_channel_send AS s
                WHERE s.is_sent IS NULL
                  AND s.channel_type = $1
                  AND s.restaurant_id = picked.restaurant_id
                  AND s.next_attempt_at <= now()
                  AND (s.lease_until IS NULL OR ($8 AND s.lease_until <= now()))
                  AND NOT EXISTS (SELECT
                                    FROM notification_channel_send AS before
                                   WHERE before.is_sent IS NULL
                                     AND before.reservation_id = s.reservation_id
                                     AND before.user_id = s.user_id
                                     AND before.user_type = s.user_type
                                     AND before.channel_type = s.channel_type
                                     AND (before.aggregate_version, before.id) < (s.aggregate_version, s.id))
                ORDER BY s.next_attempt_at, s.id
                LIMIT (SELECT rows FROM share)
                  FOR UPDATE OF s SKIP LOCKED) AS mine
), finished AS (
    UPDATE notification_channel_send AS s
       SET is_sent = false,
           outcome = due.final_outcome,
           last_error = CASE due.final_outcome
                            WHEN 'WITHDRAWN' THEN s.withdrawn_because
                            WHEN 'EXPIRED' THEN concat_ws('; ', s.last_error, 'too late to be sent')
                            WHEN 'SKIPPED' THEN 'the address is known to be undeliverable'
                            ELSE coalesce(s.last_error, 'the dispatcher ended in the middle of the last attempt')
                        END,
           lease_token = NULL,
           lease_until = NULL,
           updated_at = now()
      FROM due
     WHERE s.id = ANY (ARRAY(SELECT id FROM due WHERE final_outcome IS NOT NULL)) AND s.id = due.id
), leased AS (
    UPDATE notification_channel_send
       SET lease_token = $3, lease_until = now() + $4, attempt_count = attempt_count + 1, updated_at = now()
     WHERE id = ANY (ARRAY(SELECT id FROM due WHERE final_outcome IS NULL))
    RETURNING id, user_type, user_id, recipient, message, headers, attempt_count, created_at
), new_attempt AS (
    INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt)
    SELECT id, $1, attempt_count FROM leased
    RETURNING id, channel_send_id
)
SELECT NULL::bigint AS id, NULL AS final_outcome, NULL::bigint AS attempt_id, NULL AS user_type, NULL::bigint AS user_id,
       NULL AS recipient, NULL::jsonb AS message, NULL::jsonb AS headers, NULL::integer AS attempt,
       NULL::timestamptz AS created_at,
       CASE WHEN (SELECT count(*) FROM picked) = $2
            THEN (SELECT restaurant_id FROM picked ORDER BY number DESC LIMIT 1)
            ELSE (SELECT restaurant_id FROM visit ORDER BY number DESC LIMIT 1)
       END AS last_restaurant,
       (SELECT max(number) FROM visit) >= $7
           OR (SELECT count(*) FROM claimable) > $2
           OR EXISTS (SELECT FROM due WHERE final_outcome IS NOT NULL)  -- rows that waited for them are claimable now
           OR coalesce((SELECT max(taken) FROM (SELECT count(*) AS taken FROM due GROUP BY number) AS shares)
                       >= (SELECT rows FROM share), false) AS more
UNION ALL
(SELECT due.id, due.final_outcome, new_attempt.id, leased.user_type, leased.user_id, leased.recipient, leased.message,
        leased.headers, leased.attempt_count, leased.created_at, NULL, NULL
   FROM due
   LEFT JOIN leased ON leased.id = due.id
   LEFT JOIN new_attempt ON new_attempt.channel_send_id = due.id
  ORDER BY row_number() OVER (PARTITION BY due.number ORDER BY due.next_attempt_at, due.id), due.number)

-- name: try_claim
-- The writes of a claim for one row, to test whether the database rejects it. The caller rolls back.
-- $1 id
WITH leased AS (
    UPDATE notification_channel_send
       SET lease_token = gen_random_uuid(), lease_until = now(), attempt_count = attempt_count + 1, updated_at = now()
     WHERE id = $1 AND is_sent IS NULL
    RETURNING id, channel_type, attempt_count
)
INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt)
SELECT id, channel_type, attempt_count FROM leased

-- name: lock_sms
-- Claims under a limit per day take turns, so that each counts the claims of the others. The lock ends with the transaction.
SELECT pg_advisory_xact_lock(46, 0)

-- name: count_sms
-- The SMS that the provider accepted in the last 24 hours, and those in flight.
SELECT (SELECT count(*)
          FROM notification_channel_send
         WHERE channel_type = 'SMS' AND is_sent AND sent_at > now() - interval '24 hours')
     + (SELECT count(*)
          FROM notification_channel_send
         WHERE channel_type = 'SMS' AND lease_until > now())

-- name: postpone_sms
-- Due rows while the limit per day is reached. A row that would be due after its not_after is finished as EXPIRED.
-- $1 pause · $2 reason · $3 limit
UPDATE notification_channel_send
   SET is_sent = CASE WHEN now() + $1::interval > not_after THEN false END,
       outcome = CASE WHEN now() + $1::interval > not_after THEN 'EXPIRED' END,
       last_error = CASE WHEN now() + $1::interval > not_after THEN concat_ws('; ', $2::text, 'too late to be sent')
                         ELSE $2::text END,
       first_due_at = coalesce(first_due_at, next_attempt_at),
       next_attempt_at = now() + $1::interval,
       updated_at = now()
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM notification_channel_send
            WHERE is_sent IS NULL
              AND channel_type = 'SMS'
              AND next_attempt_at <= now()
              AND lease_until IS NULL
            ORDER BY next_attempt_at, id
            LIMIT $3
              FOR UPDATE SKIP LOCKED))
RETURNING coalesce(outcome, 'POSTPONED') AS outcome

-- name: extend_if_leased
-- $1 ids · $2 lease tokens · $3 lease
UPDATE notification_channel_send AS s
   SET lease_until = now() + $3
  FROM unnest($1::bigint[], $2::uuid[]) AS leased (id, token)
 WHERE s.id = ANY ($1) AND s.id = leased.id AND s.lease_token = leased.token
RETURNING s.id

-- name: record_if_leased
-- Records the results of attempts. The attempt's row is always written, for the history; the send's row only if it still
-- has the lease token. A row that would be due after its not_after is finished as EXPIRED, and a row withdrawn meanwhile as
-- WITHDRAWN. `unblocks`: a later row of the same person, reservation and channel waited for this one.
-- $1 ids · $2 lease tokens · $3 attempt ids · $4 results · $5 errors · $6 provider message ids · $7 pauses
-- $8 whether the attempt counts · $9 whether the address is dead · $10 whether its mark has effect
WITH given AS MATERIALIZED (
    SELECT *
      FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::interval[],
                  $8::boolean[], $9::boolean[], $10::boolean[])
           AS given (id, token, attempt_id, result, error, provider_message_id, pause, counts, address_is_dead, silences)
), attempts AS (
    UPDATE channel_send_attempt AS a
       SET finished_at = clock_timestamp(), outcome = given.result, detail = given.error,
           provider_message_id = given.provider_message_id
      FROM given
     WHERE a.id = ANY ($3) AND a.id = given.attempt_id
), recorded AS (
    UPDATE notification_channel_send AS s
       SET is_sent = CASE WHEN given.result = 'SENT' THEN true
                          WHEN given.result IN ('UNDELIVERABLE', 'EXHAUSTED') OR s.withdrawn_because IS NOT NULL
                               OR now() + given.pause > s.not_after THEN false
                     END,
           outcome = CASE WHEN given.result IN ('SENT', 'UNDELIVERABLE') THEN given.result
                          WHEN s.withdrawn_because IS NOT NULL THEN 'WITHDRAWN'
                          WHEN given.result = 'EXHAUSTED' THEN given.result
                          WHEN now() + given.pause > s.not_after THEN 'EXPIRED'
                     END,
           sent_at = CASE WHEN given.result = 'SENT' THEN clock_timestamp() END,
           attempt_count = s.attempt_count - CASE WHEN given.counts THEN 0 ELSE 1 END,
           last_error = CASE WHEN given.result IN ('SENT', 'UNDELIVERABLE') THEN given.error
                             ELSE coalesce(s.withdrawn_because, given.error)
                        END,
           next_attempt_at = CASE WHEN given.pause > interval '0' THEN now() + given.pause ELSE s.next_attempt_at END,
           first_due_at = CASE WHEN given.pause > interval '0' THEN coalesce(s.first_due_at, s.next_attempt_at)
                               ELSE s.first_due_at
                          END,
           provider_message_id = given.provider_message_id,
           lease_token = NULL,
           lease_until = NULL,
           updated_at = now()
      FROM given
     WHERE s.id = ANY ($1) AND s.id = given.id AND s.lease_token = given.token
    RETURNING s.id, s.user_type, s.user_id, s.channel_type, s.reservation_id, s.aggregate_version, s.recipient, s.is_sent,
              s.outcome, given.error, given.result, given.address_is_dead, given.silences
), dead AS (
    INSERT INTO undeliverable_address AS known (user_type, user_id, channel_type, address, reason, silences)
    SELECT DISTINCT ON (user_type, user_id, channel_type) user_type, user_id, channel_type, recipient, error, silences
      FROM recorded
     WHERE address_is_dead AND recipient IS NOT NULL
     ORDER BY user_type, user_id, channel_type, id DESC
    ON CONFLICT (user_type, user_id, channel_type)
    DO UPDATE SET address = excluded.address, reason = excluded.reason, marked_at = excluded.marked_at,
                  silences = excluded.silences OR (known.silences AND known.address = excluded.address)
), alive AS (
    DELETE FROM undeliverable_address AS u
     USING recorded AS r
     WHERE r.result = 'SENT'
       AND u.user_type = r.user_type AND u.user_id = r.user_id AND u.channel_type = r.channel_type
       AND u.address = r.recipient
       AND NOT EXISTS (SELECT
                         FROM recorded AS d
                        WHERE d.address_is_dead AND d.user_type = r.user_type AND d.user_id = r.user_id
                          AND d.channel_type = r.channel_type)
)
SELECT id, coalesce(outcome, result) AS result,
       is_sent IS NOT NULL
       AND EXISTS (SELECT
                     FROM notification_channel_send AS later
                    WHERE later.is_sent IS NULL
                      AND later.reservation_id = recorded.reservation_id
                      AND later.user_id = recorded.user_id
                      AND later.user_type = recorded.user_type
                      AND later.channel_type = recorded.channel_type
                      AND (later.aggregate_version, later.id) > (recorded.aggregate_version, recorded.id)) AS unblocks
  FROM recorded

-- name: count_addresses
-- $1 channel
SELECT count_addresses($1)

-- name: count_recent_marks
-- $1 channel · $2 how recent
SELECT count(*) FROM undeliverable_address WHERE channel_type = $1 AND marked_at > now() - $2::interval

-- name: purge_marks
-- $1 retention · $2 limit
DELETE FROM undeliverable_address
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM undeliverable_address
            WHERE marked_at < now() - $1::interval
            ORDER BY marked_at
            LIMIT $2
              FOR UPDATE SKIP LOCKED))

-- name: skip_channel
-- Finishes the due rows of a disabled channel.
-- $1 channel · $2 reason · $3 limit
UPDATE notification_channel_send
   SET is_sent = false, outcome = 'SKIPPED', last_error = $2, lease_token = NULL, lease_until = NULL, updated_at = now()
 WHERE id = ANY (ARRAY(
           SELECT id
             FROM notification_channel_send
            WHERE is_sent IS NULL
              AND channel_type = $1
              AND next_attempt_at <= now()
              AND (lease_until IS NULL OR lease_until <= now())
            ORDER BY next_attempt_at, id
            LIMIT $3
              FOR UPDATE SKIP LOCKED))
RETURNING id

-- name: count_withdrawn
SELECT channel_type, count(*) AS rows FROM notification_channel_send WHERE outcome = 'WITHDRAWN' GROUP BY channel_type
