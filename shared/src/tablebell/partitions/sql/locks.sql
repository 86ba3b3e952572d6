-- Advisory locks with two keys: $1 is always the namespace. Keys from 1000 on are members, those below are partitions.

-- name: join
-- Locks the first free member key. LIMIT stops the series at the first success, so that only one lock is taken.
-- $2 first member key · $3 last member key
SELECT key
  FROM generate_series($2::integer, $3::integer) AS key
 WHERE pg_try_advisory_lock($1, key)
 LIMIT 1

-- name: find_locks
-- A partition with any lock is not free. A member holds its key exclusively; the shared lock of its watcher does not count.
-- $2 first member key
SELECT objid::integer AS key, pid = pg_backend_pid() AS mine
  FROM pg_locks
 WHERE locktype = 'advisory'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid = $1::integer::oid
   AND objsubid = 2
   AND (mode = 'ExclusiveLock' OR objid::integer < $2)
   AND granted

-- name: acquire
-- Returns the partitions that were free.
-- $2 partitions
SELECT partition FROM unnest($2::integer[]) AS partition WHERE pg_try_advisory_lock($1, partition)

-- name: release
-- The notification is sent when the statement has ended, so after the locks are released.
-- $2 partitions · $3 channel
SELECT count(pg_advisory_unlock($1, partition)), pg_notify($3, '') FROM unnest($2::integer[]) AS partition

-- name: leave
-- $1 channel
SELECT pg_advisory_unlock_all(), pg_notify($1, '')

-- name: announce
-- $1 channel
SELECT pg_notify($1, '')

-- name: set_lock_timeout
-- $1 duration
SELECT set_config('lock_timeout', $1, false)

-- name: wait_for_departure
-- Blocks until the member has released its key. Shared, so that several watchers may wait. The transaction releases it.
-- $2 member key
SELECT pg_advisory_xact_lock_shared($1, $2)
