#!/bin/sh
# Both databases of Temporal on PostgreSQL, made or brought up to this version. Runs in temporalio/admin-tools.
# Before an upgrade of the server: one minor version at a time, schema first.
set -eu

for database in temporal temporal_visibility; do
    schema=${database#temporal_}
    tool() {
        temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_SEEDS" -u "$POSTGRES_USER" -p "$DB_PORT" --db "$database" "$@"
    }
    # Both refuse when it is there already; the update below fails when it really is not.
    tool create || echo "$database is there"
    tool setup-schema -v 0.0 || echo "$database has a schema"
    tool update-schema -d "/etc/temporal/schema/postgresql/v12/$schema/versioned"
done
