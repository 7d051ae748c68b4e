CREATE TABLE note (
    id bigserial PRIMARY KEY,
    body text NOT NULL,
    author text,
    written_at timestamptz NOT NULL DEFAULT now()
);
