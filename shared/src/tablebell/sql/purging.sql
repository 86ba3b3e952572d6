-- name: lock_purge
-- One replica purges at a time. The lock ends with the transaction.
-- $1 name of the retention
SELECT pg_try_advisory_xact_lock(hashtext('purge ' || $1))

-- name: record_purge
-- $1 name of the retention · $2 how long rows are kept
INSERT INTO purge_horizon AS known (retention, purged_before)
VALUES ($1, now() - $2::interval)
ON CONFLICT (retention) DO UPDATE SET purged_before = greatest(known.purged_before, excluded.purged_before)
