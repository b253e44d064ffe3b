package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/raftstore"
)

// CorruptError names the part of a data directory that cannot be read; New,
// Recover and all else that opens the log return it.
type CorruptError = raftstore.CorruptError

// Peek reads the identity of the peer in the data directory at root, also while
// another process has it locked: for commands that change nothing. It creates
// nothing. ErrNoPeer says that there is no peer in it.
func Peek(root string) (Identity, *pki.Credentials, error) {
	folder, err := pendingSwitch(root)
	if err != nil {
		return Identity{}, nil, err
	}
	if folder == "" {
		folder = filepath.Join(root, peerFolder)
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return Identity{}, nil, fmt.Errorf("%s: %w", root, ErrNoPeer)
	}
	id, err := loadIdentity(folder)
	if err != nil {
		return id, nil, err
	}
	cred, err := loadCredentials(folder)
	return id, cred, err
}

func loadIdentity(folder string) (id Identity, err error) {
	err = readJSON(filepath.Join(folder, peerFile), &id)
	return id, err
}

func loadCredentials(folder string) (*pki.Credentials, error) {
	text, err := os.ReadFile(filepath.Join(folder, credentialsFile))
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	cred, err := pki.ParseCredentials(text)
	if err != nil {
		return nil, &CorruptError{Path: filepath.Join(folder, credentialsFile), Err: err}
	}
	return cred, nil
}
