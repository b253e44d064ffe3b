"""Copies the record and the data of a node under many UUIDs, in a database of
ironic-inspector: copy.py URL UUID COUNT. It needs no more than ironic-inspector
does, whatever the database is."""

import sys

import sqlalchemy

url, node, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
copies = [{"node": node, "copy": f"77777777-0000-4000-8000-{i:012x}"} for i in range(1, count + 1)]
with sqlalchemy.create_engine(url).begin() as database:
    for table, columns in (
        ("nodes", "error, version_id, state, started_at, finished_at, manage_boot"),
        ("introspection_data", "processed, data"),
    ):
        statement = f"INSERT INTO {table} (uuid, {columns}) SELECT :copy, {columns} FROM {table} WHERE uuid = :node"
        database.execute(sqlalchemy.text(statement), copies)
