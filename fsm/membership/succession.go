package membership

import "github.com/trivet-ha/trivet/fsm/entry"

// succeed admits a member in the place of one that has its name or address and
// no session: a host that was wiped, or a join whose answer was lost. A former member
// of that address is displaced.
func (t Txn) succeed(m Member) entry.Result {
	t.displaceFormers(m)
	for _, old := range t.members.All() {
		if old.ID == m.ID || old.Name != m.Name && old.Address != m.Address {
			continue
		}
		if t.sessionOf.Has([]byte(old.ID)) {
			return entry.Refuse(entry.Conflict,
				"peer %s (%s at %s) lives and has this name or address; stop it first, its session ends %v later", old.ID, old.Name,
				old.Address, SessionTTL)
		}
		t.unsettleFormer(old.ID)
		t.discharge(old.ID)
	}
	return t.Admit(m)
}
