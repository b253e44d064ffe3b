package raftguard

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// Configured returns the index of the newest configuration that the log held since this
// process began, or that a snapshot holds. Raft 1.8 has it and does not tell: the Index of
// its GetConfiguration is always 0. An entry that was cut off since counts too, so that the
// index may be too great, and never too small.
func (l *Log) Configured() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.configured
}

// seen notes an entry that was read or is to be written, if it is a configuration. Raft
// reads all entries behind its newest snapshot when it starts.
func (l *Log) seen(e *raft.Log) {
	if e.Type == raft.LogConfiguration {
		l.noteConfiguration(e.Index)
	}
}

func (l *Log) noteConfiguration(index uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.configured = max(l.configured, index)
}

// Snapshots returns the snapshots of inner. The configurations of those that are there, and
// of those that are taken or installed from now on, are configurations of this log.
func (l *Log) Snapshots(inner raft.SnapshotStore) (raft.SnapshotStore, error) {
	all, err := inner.List()
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range all { // a handful
		l.noteConfiguration(s.ConfigurationIndex)
	}
	return snapshots{inner, l}, nil
}

type snapshots struct {
	raft.SnapshotStore
	log *Log
}

// Create implements raft.SnapshotStore.
func (s snapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, codec raft.Transport) (raft.SnapshotSink, error) {
	s.log.noteConfiguration(serversIndex)
	return s.SnapshotStore.Create(version, index, term, servers, serversIndex, codec)
}
