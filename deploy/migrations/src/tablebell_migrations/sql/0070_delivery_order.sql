-- A person hears of a reservation in order, on each channel.

-- withdrawn_because: why a row need not be sent any more. On a row that a dispatcher holds it says that the row is withdrawn
-- if its call does not send it; on a dead row, that a requeue does not send it.
ALTER TABLE notification_channel_send
    ADD COLUMN reservation_id bigint,
    ADD COLUMN aggregate_version integer,
    ADD COLUMN withdrawn_because text;

UPDATE notification_channel_send AS s
   SET reservation_id = event.reservation_id, aggregate_version = event.aggregate_version
  FROM notification AS told
  JOIN event_notification AS event ON event.id = told.event_notification_id
 WHERE s.is_sent IS NULL AND told.id = s.notification_id AND told.user_type = s.user_type;

-- What a person has still to be told about a reservation, in order: a row is claimed only when none is open before it.
CREATE INDEX notification_channel_send_order
    ON notification_channel_send (reservation_id, user_id, user_type, channel_type, aggregate_version, id)
    WHERE is_sent IS NULL;

-- Marks of undeliverable addresses. A mark that does not silence is kept as evidence only: too many addresses of its channel
-- were marked at once, so the fault is not theirs.
ALTER TABLE undeliverable_address
    ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY,
    ADD COLUMN silences boolean NOT NULL DEFAULT true;
CREATE UNIQUE INDEX undeliverable_address_id ON undeliverable_address (id);
CREATE INDEX undeliverable_address_recent ON undeliverable_address (channel_type, marked_at);

-- How many people have an address on a channel: a number, which needs no right to read the addresses.
CREATE FUNCTION count_addresses(channel text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public
    AS $$
SELECT count(*)
  FROM public.person
 WHERE CASE channel WHEN 'EMAIL' THEN email WHEN 'SMS' THEN phone WHEN 'PUSH' THEN fcm_token END IS NOT NULL
$$;
REVOKE ALL ON FUNCTION count_addresses(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_addresses(text) TO tablebell_channel_dispatcher;

-- A mark goes when its person's address changes, whoever changes it: a person who returns to an old address is tried again.
CREATE FUNCTION forget_undeliverable_address() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public
    AS $$
BEGIN
    DELETE FROM public.undeliverable_address
     WHERE user_type = TG_ARGV[0]
       AND user_id = NEW.id
       AND CASE channel_type
               WHEN 'EMAIL' THEN NEW.email IS DISTINCT FROM OLD.email
               WHEN 'SMS' THEN NEW.phone IS DISTINCT FROM OLD.phone
               WHEN 'PUSH' THEN NEW.fcm_token IS DISTINCT FROM OLD.fcm_token
               ELSE false
           END;
    RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION forget_undeliverable_address() FROM PUBLIC;
CREATE TRIGGER customer_address AFTER UPDATE OF email, phone, fcm_token ON customer
    FOR EACH ROW EXECUTE FUNCTION forget_undeliverable_address('CUSTOMER');
CREATE TRIGGER restaurant_users_address AFTER UPDATE OF email, phone, fcm_token ON restaurant_users
    FOR EACH ROW EXECUTE FUNCTION forget_undeliverable_address('RESTAURANT_USER');
CREATE TRIGGER admin_users_address AFTER UPDATE OF email, phone, fcm_token ON admin_users
    FOR EACH ROW EXECUTE FUNCTION forget_undeliverable_address('ADMIN_USER');
CREATE TRIGGER agency_users_address AFTER UPDATE OF email, phone, fcm_token ON agency_users
    FOR EACH ROW EXECUTE FUNCTION forget_undeliverable_address('AGENCY_USER');

-- An operator clears marks; the act is on record beside those on the outboxes.
GRANT DELETE ON undeliverable_address TO tablebell_reservation_api;
ALTER TABLE outbox_intervention
    DROP CONSTRAINT outbox_intervention_act_check,
    ADD CONSTRAINT outbox_intervention_act_check CHECK (act IN ('requeue', 'discard', 'republish', 'clear'));
