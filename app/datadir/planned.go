package datadir

import (
	"path/filepath"
	"strings"
)

// What a dry run shows of what has no text, or none to be shown.
const (
	shownSecret = "(secret)\n"
	shownFolder = "directory\n"
	shownNew    = "(new)" // an ID that is drawn when the peer is made
)

// PlannedFile is what Create would make at one path, and what stands there before; "" is
// nothing.
type PlannedFile struct{ Path, Before, After string }

// Planned is what makes a peer in dir, as a dry run shows it. A peer that lives there would
// be set aside.
func Planned(dir *Dir, id Identity) ([]PlannedFile, error) {
	id.ID = shownNew
	if id.Cluster == "" || id.Incarnation == 1 { // not known yet, or drawn as well
		id.Cluster = shownNew
	}
	text, err := encodeIdentity(id)
	if err != nil {
		return nil, err
	}
	had, err := dir.HasPeer()
	if err != nil {
		return nil, err
	}
	peer := dir.PeerDir()
	var out []PlannedFile
	if had {
		aside := filepath.Join(dir.root, beforePrefix+verbJoin+"-DATE")
		out = append(out, PlannedFile{peer, shownFolder, ""}, PlannedFile{aside, "", "what was in " + peer + "\n"})
	}
	return append(out, PlannedFile{peer, "", shownFolder},
		PlannedFile{filepath.Join(peer, peerFile), "", string(text)},
		PlannedFile{filepath.Join(peer, credentialsFile), "", shownSecret},
		PlannedFile{filepath.Join(peer, gossipKeyFile), "", shownSecret},
		PlannedFile{strings.TrimSuffix(dir.RaftDir(), "/"), "", shownFolder}), nil
}
