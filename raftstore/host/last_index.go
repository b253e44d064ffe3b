package host

import (
	"fmt"

	"github.com/trivet-ha/trivet/raftstore"
)

// LastIndex returns the index of the newest entry in st, which a snapshot may
// stand for; 0: there is none. Raft does not use st yet.
func LastIndex(st raftstore.Storage) (last uint64, err error) {
	defer damaged("the log", &err)
	if last, err = st.Log.LastIndex(); err != nil {
		return 0, fmt.Errorf("find the end of the log: %w", err)
	}
	newest, err := st.Snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("list snapshots: %w", err)
	}
	for _, s := range newest { // a handful
		last = max(last, s.Index)
	}
	return last, nil
}
