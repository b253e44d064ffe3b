-- The tables that ironic-inspector-dbsync of ironic-inspector 11.1.0 makes in
-- SQLite: what CREATE TABLE says there of names, types and keys.
CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num));
CREATE TABLE options (uuid VARCHAR(36) NOT NULL, name VARCHAR(255) NOT NULL, value TEXT, PRIMARY KEY (uuid, name), FOREIGN KEY(uuid) REFERENCES nodes (uuid));
CREATE TABLE rules (uuid VARCHAR(36) NOT NULL, created_at DATETIME NOT NULL, description TEXT, disabled BOOLEAN, scope VARCHAR(255), PRIMARY KEY (uuid));
CREATE TABLE rule_conditions (id INTEGER NOT NULL, rule VARCHAR(36), op VARCHAR(255) NOT NULL, multiple VARCHAR(255) NOT NULL, field TEXT, params TEXT, invert BOOLEAN, PRIMARY KEY (id), FOREIGN KEY(rule) REFERENCES rules (uuid));
CREATE TABLE rule_actions (id INTEGER NOT NULL, rule VARCHAR(36), action VARCHAR(255) NOT NULL, params TEXT, PRIMARY KEY (id), FOREIGN KEY(rule) REFERENCES rules (uuid));
CREATE TABLE attributes (name VARCHAR(255) NOT NULL, value VARCHAR(255), uuid VARCHAR(36), node_uuid VARCHAR(36), CONSTRAINT pk_attributes PRIMARY KEY (uuid), CONSTRAINT fk_node_attribute FOREIGN KEY(node_uuid) REFERENCES nodes (uuid));
CREATE TABLE nodes (uuid VARCHAR(36) NOT NULL, error TEXT, version_id VARCHAR(36) DEFAULT (''), state VARCHAR(10) DEFAULT 'finished' NOT NULL, started_at DATETIME, finished_at DATETIME, manage_boot BOOLEAN, PRIMARY KEY (uuid));
CREATE TABLE introspection_data (uuid VARCHAR(36) NOT NULL, processed BOOLEAN NOT NULL, data TEXT, PRIMARY KEY (uuid, processed), FOREIGN KEY(uuid) REFERENCES nodes (uuid));
INSERT INTO alembic_version VALUES ('b55109d5063a');
