package host

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
)

// Members returns the members that a log tells of, by server ID. A peer that has heard
// no leader since its start has not applied its log, and cannot know which of the
// entries were committed: these records are for people, and decide nothing.
func Members(log raft.LogStore) (map[string]membership.Member, error) {
	first, last, err := bounds(log)
	if err != nil {
		return nil, err
	}
	members := make(map[string]membership.Member)
	var e raft.Log
	for index := first; index > 0 && index <= last; index++ {
		if err := log.GetLog(index, &e); err != nil {
			return nil, fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if e.Type == raft.LogCommand {
			fsm.NoteMember(members, e.Data)
		}
	}
	return members, nil
}
