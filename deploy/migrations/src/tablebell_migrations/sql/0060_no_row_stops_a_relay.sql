-- An aggregate has at most one open event of a schedule key, whatever its status is. A row enters the index when it is
-- inserted, requeued or republished; no change between the open statuses can violate the index. Before, it covered PENDING
-- rows only: a relay that put a row back could violate it.
UPDATE event_outbox AS o
   SET status = 'DISCARDED', discarded_at = clock_timestamp(), last_error = 'planned anew', lease_token = NULL,
       lease_until = NULL
 WHERE schedule_key IS NOT NULL
   AND status IN ('PENDING', 'PROCESSING', 'FAILED')
   AND EXISTS (SELECT
                 FROM event_outbox AS newer
                WHERE newer.aggregate_type = o.aggregate_type
                  AND newer.aggregate_id = o.aggregate_id
                  AND newer.schedule_key = o.schedule_key
                  AND newer.status IN ('PENDING', 'PROCESSING', 'FAILED')
                  AND newer.id > o.id);
DROP INDEX event_outbox_schedule;
CREATE UNIQUE INDEX event_outbox_schedule ON event_outbox (aggregate_type, aggregate_id, schedule_key)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED') AND schedule_key IS NOT NULL;

-- The events of an aggregate go out by version, and those of one version by id: many may have the same version.
DROP INDEX event_outbox_order;
CREATE INDEX event_outbox_order ON event_outbox (aggregate_type, aggregate_id, aggregate_version, id)
    WHERE status IN ('PENDING', 'PROCESSING', 'FAILED');

-- When a row was due for the first time. NULL until its due time is moved into the future; an operator who queues it again
-- clears it. Without it, a row that is put off again and again never looks late.
ALTER TABLE event_outbox ADD COLUMN first_due_at timestamptz;
ALTER TABLE notification_outbox ADD COLUMN first_due_at timestamptz;
ALTER TABLE notification_channel_send ADD COLUMN first_due_at timestamptz;

-- `make republish` is on record too. It works with the owner's rights and knows no admin: its actor is NULL.
ALTER TABLE outbox_intervention DROP CONSTRAINT outbox_intervention_act_check;
ALTER TABLE outbox_intervention ADD CONSTRAINT outbox_intervention_act_check
    CHECK (act IN ('requeue', 'discard', 'republish'));
ALTER TABLE outbox_intervention ALTER COLUMN actor_id DROP NOT NULL;
