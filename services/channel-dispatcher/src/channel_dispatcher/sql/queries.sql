-- What the dispatcher does with L2. attempt_count is raised when a row is claimed, together with the row of its attempt,
-- so that both are on record before a provider is called; what turns out to be nobody's attempt is given back.

-- name: claim_fair
-- In rounds: a claim visits the restaurants one after another, from where the last one stopped, and takes the same share
-- of each that has a row which can be claimed. A row waits as long as an earlier one of its person, reservation and channel
-- is open. Rows that it is too late or pointless to send are finished here. The first row of the answer tells how far the
-- round came and has no id.
-- $1 channel · $2 limit · $3 token · $4 lease · $5 the restaurant where the last round stopped · $6 how many attempts
-- there are · $7 how many restaurants to visit at most · $8 whether a lease that has ended may be taken over
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
), able AS MATERIALIZED (
    -- The restaurants with something to claim: one more than the limit tells that there is more.
    SELECT ripe.restaurant_id, ripe.number
      FROM (SELECT restaurant_id, number FROM visit WHERE oldest <= now() ORDER BY number) AS ripe
     CROSS JOIN LATERAL (
               SELECT
                 FROM notification_channel_send AS s
                WHERE s.is_sent IS NULL
                  AND s.channel_type = $1
                  AND s.restaurant_id = ripe.restaurant_id
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
     ORDER BY ripe.number
     LIMIT $2 + 1
), picked AS MATERIALIZED (
    SELECT restaurant_id, number FROM able ORDER BY number LIMIT $2
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
                                -- A row that became due after the mark was queued again by somebody who knows better.
                                AND dead.marked_at >= mine.next_attempt_at) THEN 'SKIPPED'
           END AS settled
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
           outcome = due.settled,
           last_error = CASE due.settled
                            WHEN 'WITHDRAWN' THEN s.withdrawn_because
                            WHEN 'EXPIRED' THEN concat_ws('; ', s.last_error, 'too late to be sent')
                            WHEN 'SKIPPED' THEN 'the address is known to be undeliverable'
                            ELSE coalesce(s.last_error, 'the dispatcher ended in the middle of the last attempt')
                        END,
           lease_token = NULL,
           lease_until = NULL,
           updated_at = now()
      FROM due
     WHERE s.id = ANY (ARRAY(SELECT id FROM due WHERE settled IS NOT NULL)) AND s.id = due.id
), leased AS (
    UPDATE notification_channel_send
       SET lease_token = $3, lease_until = now() + $4, attempt_count = attempt_count + 1, updated_at = now()
     WHERE id = ANY (ARRAY(SELECT id FROM due WHERE settled IS NULL))
    RETURNING id, user_type, user_id, recipient, message, headers, attempt_count, created_at
), begun AS (
    INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt)
    SELECT id, $1, attempt_count FROM leased
    RETURNING id, channel_send_id
)
SELECT NULL::bigint AS id, NULL AS settled, NULL::bigint AS attempt_id, NULL AS user_type, NULL::bigint AS user_id,
       NULL AS recipient, NULL::jsonb AS message, NULL::jsonb AS headers, NULL::integer AS attempt,
       NULL::timestamptz AS created_at,
       CASE WHEN (SELECT count(*) FROM picked) = $2
            THEN (SELECT restaurant_id FROM picked ORDER BY number DESC LIMIT 1)
            ELSE (SELECT restaurant_id FROM visit ORDER BY number DESC LIMIT 1)
       END AS reached,
       (SELECT max(number) FROM visit) >= $7
           OR (SELECT count(*) FROM able) > $2
           OR EXISTS (SELECT FROM due WHERE settled IS NOT NULL)  -- what waited for it can be claimed now
           OR coalesce((SELECT max(taken) FROM (SELECT count(*) AS taken FROM due GROUP BY number) AS shares)
                       >= (SELECT rows FROM share), false) AS more
UNION ALL
(SELECT due.id, due.settled, begun.id, leased.user_type, leased.user_id, leased.recipient, leased.message, leased.headers,
        leased.attempt_count, leased.created_at, NULL, NULL
   FROM due
   LEFT JOIN leased ON leased.id = due.id
   LEFT JOIN begun ON begun.channel_send_id = due.id
  ORDER BY row_number() OVER (PARTITION BY due.number ORDER BY due.next_attempt_at, due.id), due.number)

-- name: try_claim
-- What a claim writes for one row, to see whether the database refuses it. The caller rolls it back.
-- $1 id
WITH leased AS (
    UPDATE notification_channel_send
       SET lease_token = gen_random_uuid(), lease_until = now(), attempt_count = attempt_count + 1, updated_at = now()
     WHERE id = $1 AND is_sent IS NULL
    RETURNING id, channel_type, attempt_count
)
INSERT INTO channel_send_attempt (channel_send_id, channel_type, attempt)
SELECT id, channel_type, attempt_count FROM leased

-- name: extend_if_leased
-- $1 ids · $2 their tokens · $3 lease
UPDATE notification_channel_send AS s
   SET lease_until = now() + $3
  FROM unnest($1::bigint[], $2::uuid[]) AS held (id, token)
 WHERE s.id = ANY ($1) AND s.id = held.id AND s.lease_token = held.token
RETURNING s.id

-- name: record_if_leased
-- What became of the attempts. The attempt's own row says it in any case, for the trace; the send's row is written only
-- under the lease. A row that could be tried again only after its time is finished instead, and one that need not be sent
-- any more is withdrawn. `unblocks`: a later row of the same person, reservation and channel has waited for this one.
-- $1 ids · $2 their tokens · $3 attempts · $4 results · $5 errors · $6 the providers' ids · $7 pauses · $8 does the
-- attempt count · $9 is the address dead · $10 does its mark silence the person
WITH told AS MATERIALIZED (
    SELECT *
      FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::interval[],
                  $8::boolean[], $9::boolean[], $10::boolean[])
           AS told (id, token, attempt_id, result, error, provider_message_id, pause, counts, address_is_dead, silences)
), attempts AS (
    UPDATE channel_send_attempt AS a
       SET finished_at = clock_timestamp(), outcome = told.result, detail = told.error,
           provider_message_id = told.provider_message_id
      FROM told
     WHERE a.id = ANY ($3) AND a.id = told.attempt_id
), recorded AS (
    UPDATE notification_channel_send AS s
       SET is_sent = CASE WHEN told.result = 'SENT' THEN true
                          WHEN told.result IN ('UNDELIVERABLE', 'EXHAUSTED') OR s.withdrawn_because IS NOT NULL
                               OR now() + told.pause > s.not_after THEN false
                     END,
           outcome = CASE WHEN told.result IN ('SENT', 'UNDELIVERABLE') THEN told.result
                          WHEN s.withdrawn_because IS NOT NULL THEN 'WITHDRAWN'
                          WHEN told.result = 'EXHAUSTED' THEN told.result
                          WHEN now() + told.pause > s.not_after THEN 'EXPIRED'
                     END,
           sent_at = CASE WHEN told.result = 'SENT' THEN clock_timestamp() END,
           attempt_count = s.attempt_count - CASE WHEN told.counts THEN 0 ELSE 1 END,
           last_error = CASE WHEN told.result IN ('SENT', 'UNDELIVERABLE') THEN told.error
                             ELSE coalesce(s.withdrawn_because, told.error)
                        END,
           next_attempt_at = CASE WHEN told.pause > interval '0' THEN now() + told.pause ELSE s.next_attempt_at END,
           first_due_at = CASE WHEN told.pause > interval '0' THEN coalesce(s.first_due_at, s.next_attempt_at)
                               ELSE s.first_due_at
                          END,
           provider_message_id = told.provider_message_id,
           lease_token = NULL,
           lease_until = NULL,
           updated_at = now()
      FROM told
     WHERE s.id = ANY ($1) AND s.id = told.id AND s.lease_token = told.token
    RETURNING s.id, s.user_type, s.user_id, s.channel_type, s.reservation_id, s.aggregate_version, s.recipient, s.is_sent,
              s.outcome, told.error, told.result, told.address_is_dead, told.silences
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
-- After so long an address is worth another try. $1 retention
DELETE FROM undeliverable_address WHERE marked_at < now() - $1::interval

-- name: skip_channel
-- Finish what is open for a channel that is switched off.
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

-- name: measure_channels
-- For a scrape: how long the oldest due row of each channel has been due, how long ago the oldest open row was first due
-- (a row that is put off again and again is never due), and how many rows were withdrawn.
-- $1 channels
SELECT channel_type,
       (SELECT extract(epoch FROM greatest(now() - s.next_attempt_at, interval '0'))::float
          FROM notification_channel_send AS s
         WHERE s.is_sent IS NULL AND s.channel_type = channel.channel_type
         ORDER BY s.next_attempt_at
         LIMIT 1) AS oldest_seconds,
       (SELECT extract(epoch FROM greatest(now() - min(coalesce(s.first_due_at, s.next_attempt_at)), interval '0'))::float
          FROM notification_channel_send AS s
         WHERE s.is_sent IS NULL AND s.channel_type = channel.channel_type) AS overdue_seconds,
       (SELECT count(*)
          FROM notification_channel_send AS s
         WHERE s.outcome = 'WITHDRAWN' AND s.channel_type = channel.channel_type) AS withdrawn
  FROM unnest($1::text[]) AS channel (channel_type)
