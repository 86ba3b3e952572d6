-- Advisory locks with two keys: $1 is always the namespace. Seats are keys above the partitions'.

-- name: take_seat
-- The first seat that is free. The series is walked in order and no further than needed, so that one lock is taken.
-- $2 the first seat's key · $3 the last one's
SELECT key
  FROM generate_series($2::integer, $3::integer) AS key
 WHERE pg_try_advisory_lock($1, key)
 LIMIT 1

-- name: survey
-- A partition that anybody holds in any way is not free; a seat is taken by the one who sits on it, not by who waits.
-- $2 the first seat's key
SELECT objid::integer AS key, pid = pg_backend_pid() AS mine
  FROM pg_locks
 WHERE locktype = 'advisory'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid = $1::integer::oid
   AND objsubid = 2
   AND (mode = 'ExclusiveLock' OR objid::integer < $2)
   AND granted

-- name: take
-- Which of the partitions we got.
-- $2 partitions
SELECT partition FROM unnest($2::integer[]) AS partition WHERE pg_try_advisory_lock($1, partition)

-- name: give_up
-- The announcement goes out when the statement is done, and so after the locks.
-- $2 partitions · $3 channel
SELECT count(pg_advisory_unlock($1, partition)), pg_notify($3, '') FROM unnest($2::integer[]) AS partition

-- name: leave
-- $1 channel
SELECT pg_advisory_unlock_all(), pg_notify($1, '')

-- name: announce
-- $1 channel
SELECT pg_notify($1, '')

-- name: limit_waiting
-- $1 how long
SELECT set_config('lock_timeout', $1, false)

-- name: await_departure
-- Blocks until the seat is empty. Shared, so that several may wait; released as soon as the statement ends.
-- $2 the seat's key
SELECT pg_advisory_xact_lock_shared($1, $2)
