// Package inspectordb reads the database of an ironic-inspector: its rules, its
// records of introspections and the data that it stored. It reads SQLite files,
// MySQL or MariaDB, and PostgreSQL, named as in the original's own
// configuration, and writes nothing: everything comes from one read-only
// transaction, so that what is read belongs together.
package inspectordb
