#!/bin/sh
# Run once by the image, when the primary's data directory is made.
set -e
echo "host replication postgres all scram-sha-256" >>"$PGDATA/pg_hba.conf"
