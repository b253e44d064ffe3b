package api

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"github.com/trivet-ha/trivet/internal/bounds"
)

// Bounds of a file of users.
const (
	maxSmallFile = 1 << 20 // bytes, also of a certificate or key
	maxCost      = 15      // of a hash: one check takes some 2 s
	hashLength   = 60      // bytes of a bcrypt hash
)

// users is what a file said when it was read.
type users struct {
	file    os.FileInfo // nil: they are no file's
	byName  map[string]*user
	dearest []byte  // one of the hashes with the highest cost
	cost    int     // of that
	wrong   []error // each line that is wrong, not the first alone, or that there is no user
}

type user struct {
	hash     []byte
	cost     int
	verified atomic.Pointer[verified] // nil: nothing is remembered
}

// decoy returns a hash of this cost that is no user's. What it is the hash of is
// not known; comparing takes the time of any hash of that cost.
func (u *users) decoy(cost int) []byte {
	const digits = len("$2y$")
	return fmt.Appendf(nil, "%s%02d%s", u.dearest[:digits], cost, u.dearest[digits+2:])
}

// of reports whether the users come from the file as it is now.
func (u *users) of(now os.FileInfo) bool {
	return u.file != nil && sameFile(u.file, now)
}

// readUsers reads a file of lines `name:hash`. Empty lines and those that begin
// with # say nothing. A name with two hashes is no user: one of them may be the stolen one.
func readUsers(path string) (*users, error) {
	text, info, err := bounds.ReadFile(path, maxSmallFile)
	if err != nil {
		return nil, fmt.Errorf("users of the API: %w", err)
	}
	u := &users{file: info, byName: make(map[string]*user)}
	var twice []string
	number := 0
	for line := range bytes.Lines(text) {
		number++
		name, hash, cost, err := parseUser(strings.TrimSpace(string(line)))
		switch {
		case err != nil:
			u.wrong = append(u.wrong, fmt.Errorf("%s:%d: %w", path, number, err))
			continue
		case name == "":
			continue
		case u.byName[name] != nil:
			u.wrong = append(u.wrong, fmt.Errorf("%s:%d: user %q is there twice; keep one line", path, number, name))
			if string(u.byName[name].hash) != hash {
				twice = append(twice, name)
			}
			continue
		}
		u.byName[name] = &user{hash: []byte(hash), cost: cost}
		if cost > u.cost {
			u.cost, u.dearest = cost, []byte(hash)
		}
	}
	for _, name := range twice {
		delete(u.byName, name)
	}
	if len(u.wrong) == 0 && len(u.byName) == 0 {
		u.wrong = append(u.wrong, fmt.Errorf("%s: no user is in it; add one with htpasswd -B", path))
	}
	return u, nil
}

// parseUser reads one line; name is empty where the line says nothing.
func parseUser(line string) (name, hash string, cost int, err error) {
	if line == "" || strings.HasPrefix(line, "#") {
		return "", "", 0, nil
	}
	name, hash, found := strings.Cut(line, ":")
	if !found || name == "" {
		return "", "", 0, errors.New("not of the form name:hash; write it with htpasswd -B")
	}
	// These are the three marks of the one correct algorithm.
	if len(hash) != hashLength || !slices.Contains([]string{"$2y$", "$2b$", "$2a$"}, hash[:4]) {
		return "", "", 0, fmt.Errorf("user %q: only bcrypt hashes are taken; set the password again with htpasswd -B", name)
	}
	if cost, err = bcrypt.Cost([]byte(hash)); err != nil {
		return "", "", 0, fmt.Errorf("user %q: the hash is damaged: %w", name, err)
	}
	if cost > maxCost {
		return "", "", 0, fmt.Errorf("user %q: a hash of cost %d takes too long to check, at most %d; use htpasswd -B -C %d",
			name, cost, maxCost, maxCost)
	}
	return name, hash, cost, nil
}

// NewUser returns the line of a file of users that lets name in with password.
// It draws the salt of the hash itself.
func NewUser(name, password string) (string, error) {
	if name == "" || strings.ContainsAny(name, ":#\n") {
		return "", fmt.Errorf("user %q: a name holds no colon, no # and no line break", name)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "", fmt.Errorf("user %q: %w", name, err)
	}
	return name + ":" + string(hash) + "\n", nil
}
