package api

import "net/http"

// Role is what a caller may do with the inspector's API. The original's other roles
// (member) may do nothing here that a stranger may not.
type Role uint8

// The roles. The zero Role may do what is public and nothing else, so that a
// strategy that forgets to name one opens nothing.
const (
	RoleNone   Role = iota
	RoleReader      // may see how introspections stand
	RoleAdmin       // may do everything
)

// String returns the role as the original's policies name it.
func (r Role) String() string {
	switch r {
	case RoleReader:
		return "reader"
	case RoleAdmin:
		return "admin"
	}
	return "none"
}

// Caller is who sent a request, as a strategy found out. All but the role is for
// the audit.
type Caller struct {
	Name   string
	Role   Role
	ID     string // of Keystone's user, as the next two; "" with other strategies
	Domain string // of the user, by name
	Scope  string // what the token is for: "system", "project DOMAIN/NAME", "domain NAME"
}

// allow refuses a caller whose role is below need, in the words of
// docs/contract.md#errors. The caller has proved who it is: 401 would make it ask
// for a password.
func (c Caller) allow(need Role) error {
	if c.Role < need {
		return refuse(http.StatusForbidden, "Access denied by policy")
	}
	return nil
}
