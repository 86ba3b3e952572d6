-- name: withdraw_channel_sends
-- A row without a lease is closed. A leased row keeps its lease: its call may be in progress, and later rows must not
-- overtake it. The dispatcher records the outcome of the call, and withdraws the row if it was not sent. A dead row stays
-- dead; if an operator requeues it, the next claim withdraws it.
-- The ids are sorted before the rows are locked one by one: a common lock order prevents deadlocks, and the workers' pools
-- plan without sorts, so an ORDER BY over the table would read the whole history in the order of its key.
-- $1 event_notification ids · $2 the reason for each · $3 user type · $4 user id, or NULL for all
WITH candidate AS MATERIALIZED (
    SELECT send.id, event.reason
      FROM unnest($1::bigint[], $2::text[]) AS event (id, reason)
      JOIN notification AS n ON n.event_notification_id = event.id AND n.user_type = $3
      JOIN notification_channel_send AS send ON send.notification_id = n.id
     WHERE (send.is_sent IS NULL OR send.outcome IN ('EXHAUSTED', 'UNDELIVERABLE'))
       AND ($4::bigint IS NULL OR n.user_id = $4)
), ordered AS MATERIALIZED (
    SELECT id, reason FROM candidate ORDER BY id
), outdated AS MATERIALIZED (
    SELECT locked.id, ordered.reason,
           locked.is_sent IS NULL AND (locked.lease_until IS NULL OR locked.lease_until <= now()) AS is_free
      FROM ordered
     CROSS JOIN LATERAL (
               SELECT send.id, send.is_sent, send.lease_until
                 FROM notification_channel_send AS send
                WHERE send.id = ordered.id AND (send.is_sent IS NULL OR send.outcome IN ('EXHAUSTED', 'UNDELIVERABLE'))
                  FOR UPDATE) AS locked
)
UPDATE notification_channel_send AS s
   SET withdrawn_because = outdated.reason,
       is_sent = CASE WHEN outdated.is_free THEN false ELSE s.is_sent END,
       outcome = CASE WHEN outdated.is_free THEN 'WITHDRAWN' ELSE s.outcome END,
       last_error = CASE WHEN s.is_sent IS NULL THEN outdated.reason ELSE s.last_error END,
       lease_token = CASE WHEN outdated.is_free THEN NULL ELSE s.lease_token END,
       lease_until = CASE WHEN outdated.is_free THEN NULL ELSE s.lease_until END,
       updated_at = now()
  FROM outdated
 WHERE s.id = outdated.id AND s.withdrawn_because IS NULL
