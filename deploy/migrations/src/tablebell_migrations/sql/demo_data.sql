-- The restaurants and people of the demo. Their ids are fixed, because the documents and examples use them. Running this twice
-- changes nothing.

INSERT INTO agency (id, name) VALUES (7, 'Viaggi Lanterna') ON CONFLICT DO NOTHING;

INSERT INTO restaurant (id, name, address, timezone, phone, max_party_size, opening_hours) VALUES
    (10, 'Trattoria del Porto', 'Calata Andalò di Negro 12, 16126 Genova', 'Europe/Rome', '+390105550110', 20,
     '{"mon": [["12:00", "15:00"], ["18:30", "23:30"]], "tue": [["12:00", "15:00"], ["18:30", "23:30"]],
       "wed": [["12:00", "15:00"], ["18:30", "23:30"]], "thu": [["12:00", "15:00"], ["18:30", "23:30"]],
       "fri": [["12:00", "15:00"], ["18:30", "23:59"]], "sat": [["12:00", "15:00"], ["18:30", "23:59"]],
       "sun": [["12:00", "15:30"], ["18:30", "23:30"]]}'),
    (11, 'Osteria della Luna', 'Vico della Luna 3, 16123 Genova', 'Europe/Rome', '+390105550111', 12, NULL)
ON CONFLICT DO NOTHING;

INSERT INTO restaurant_users (id, restaurant_id, role, name, email, phone, fcm_token, locale) VALUES
    (50, 10, 'MANAGER', 'Giulia Ferri', 'giulia.ferri@porto.example', '+393330000050', 'demo-fcm-token-50', 'it'),
    (51, 10, 'STAFF', 'Marco Riva', 'marco.riva@porto.example', '+393330000051', 'demo-fcm-token-51', 'it'),
    (52, 10, 'STAFF', 'Sofia Costa', 'sofia.costa@porto.example', '+393330000052', 'demo-fcm-token-52', 'en'),
    (60, 11, 'MANAGER', 'Paolo Neri', 'paolo.neri@luna.example', '+393330000060', 'demo-fcm-token-60', 'it')
ON CONFLICT DO NOTHING;

INSERT INTO customer (id, name, email, phone, fcm_token, locale, timezone, agency_id) VALUES
    (5, 'Anna Bianchi', 'anna.bianchi@mail.example', '+393330000005', 'demo-fcm-token-5', 'it', 'Europe/Rome', 7),
    (6, 'Luís Pereira', 'luis.pereira@mail.example', '+351910000006', 'demo-fcm-token-6', 'pt', 'Europe/Lisbon', 7)
ON CONFLICT DO NOTHING;

INSERT INTO admin_users (id, name, email, phone, locale) VALUES
    (1, 'Elena Conti', 'elena.conti@tablebell.example', '+393330000001', 'it'),
    (2, 'David Moore', 'david.moore@tablebell.example', '+393330000002', 'en')
ON CONFLICT DO NOTHING;

INSERT INTO agency_users (id, agency_id, name, email, phone, locale) VALUES
    (70, 7, 'Carmen Vidal', 'carmen.vidal@lanterna.example', '+34600000070', 'es')
ON CONFLICT DO NOTHING;

-- Explicit ids do not advance the sequences. New rows start at 1000, so they do not collide with the demo's.
SELECT setval(pg_get_serial_sequence(t, 'id'), 1000, false)
  FROM unnest(ARRAY['agency', 'restaurant', 'restaurant_users', 'customer', 'admin_users', 'agency_users']) AS t
 WHERE NOT (SELECT is_called FROM customer_id_seq) AND (SELECT last_value FROM customer_id_seq) < 1000;
