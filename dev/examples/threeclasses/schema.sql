CREATE TABLE IF NOT EXISTS account (id bigint PRIMARY KEY, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS product (id bigint PRIMARY KEY, name text NOT NULL, cents bigint NOT NULL);
CREATE TABLE IF NOT EXISTS recommendation (product bigint NOT NULL, other bigint NOT NULL, PRIMARY KEY (product, other));
INSERT INTO account SELECT n, 10000 FROM generate_series(1, 100) n ON CONFLICT DO NOTHING;
INSERT INTO product SELECT n, 'product ' || n, 100 * n FROM generate_series(1, 100) n ON CONFLICT DO NOTHING;
INSERT INTO recommendation SELECT n, n % 100 + 1 FROM generate_series(1, 100) n ON CONFLICT DO NOTHING;
