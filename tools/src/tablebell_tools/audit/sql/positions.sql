-- For the binary search of a window's first id: the first row from an id on, and its creation time.

-- name: reservation
SELECT id, created_at AS at FROM reservation WHERE id >= $1 ORDER BY id LIMIT 1

-- name: event_outbox
SELECT id, created_at AS at FROM event_outbox WHERE id >= $1 ORDER BY id LIMIT 1

-- name: event_notification
SELECT id, created_at AS at FROM event_notification WHERE id >= $1 ORDER BY id LIMIT 1

-- name: notification
SELECT id, created_at AS at FROM notification WHERE id >= $1 ORDER BY id LIMIT 1

-- name: notification_action
SELECT id, created_at AS at FROM notification_action WHERE id >= $1 ORDER BY id LIMIT 1

-- name: notification_outbox
SELECT id, created_at AS at FROM notification_outbox WHERE id >= $1 ORDER BY id LIMIT 1

-- name: notification_channel_send
SELECT id, created_at AS at FROM notification_channel_send WHERE id >= $1 ORDER BY id LIMIT 1

-- name: channel_send_attempt
SELECT id, started_at AS at FROM channel_send_attempt WHERE id >= $1 ORDER BY id LIMIT 1
