-- L2 is claimed in rounds over the restaurants: this index finds the next restaurant that has something open, and its
-- oldest row, in one step each, however long another's queue is.
CREATE INDEX notification_channel_send_fair ON notification_channel_send (channel_type, restaurant_id, next_attempt_at, id)
    WHERE is_sent IS NULL;

-- How much was withdrawn is asked at every scrape; withdrawing happens in another service.
CREATE INDEX notification_channel_send_withdrawn ON notification_channel_send (channel_type) WHERE outcome = 'WITHDRAWN';

-- An address that took a message after all is dead no longer.
GRANT DELETE ON undeliverable_address TO tablebell_channel_dispatcher;
