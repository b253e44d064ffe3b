package leases

import "github.com/trivet-ha/trivet/fsm/valid"

func checkLeases(t Txn, p *valid.Problems) {
	p.Want(t.leases.Size() <= MaxLeases, "%d leases", t.leases.Size())
	for key, l := range t.leases.All() {
		p.Want(string(key) == l.Name && validLeaseName(l.Name) == nil, "lease %q is filed under %q", l.Name, key)
		p.Want(!l.Token.IsZero() && l.Token <= t.Granted(), "lease %s was granted by no entry: %v", l.Name, l.Token)
		if l.Holder == "" {
			p.Want(l.Expires == 0 && l.TTL == 0 && l.Client == "", "free lease %s ends at %v", l.Name, l.Expires)
			continue
		}
		p.Want(l.Granted <= t.Position.Now && l.Expires <= t.Position.Now.Add(l.TTL),
			"lease %s of %v, granted %v, ends at %v", l.Name, l.TTL, l.Granted, l.Expires)
	}
}

// checkValues verifies what other programs store here.
func checkValues(t Txn, p *valid.Problems) {
	p.Want(t.values.byKey.Size() <= MaxValues, "%d values", t.values.byKey.Size())
	bytes := 0
	for key, v := range t.values.byKey.All() {
		bytes += len(v.Data)
		p.Want(string(key) == v.Key && validValueKey(v.Key) == nil, "value %q is filed under %q", v.Key, key)
		p.Want(!v.Version.IsZero() && v.Version <= t.Granted(), "value %s was written by no entry: %v", v.Key, v.Version)
		p.Want((v.Lease == "") == v.Token.IsZero(), "value %s was written under lease %q and token %v", v.Key, v.Lease,
			v.Token)
		p.Want(v.Token < v.Version || v.Lease == "", "value %s was written by %v under the later token %v", v.Key, v.Version,
			v.Token)
	}
	p.Want(bytes == t.values.bytes && bytes <= MaxValueBytes, "the values have %d bytes, counted are %d", bytes,
		t.values.bytes)
}

// checkGroups verifies that members of groups stay as long as their leases.
func checkGroups(t Txn, p *valid.Problems) {
	p.Want(t.groups.members.Size() <= MaxGroupMembers, "the groups have %d members", t.groups.members.Size())
	for key, m := range t.groups.members.All() {
		p.Want(string(key) == string(pathKey(m.Component, m.ID)), "member %s of %s is filed under %q", m.ID, m.Component, key)
		l, _ := t.leases.Get([]byte(m.Lease))
		p.Want(l.Holder != "" && l.Token == m.Token, "member %s of %s stays by lease %s and token %v, which is over", m.ID,
			m.Component, m.Lease, m.Token)
		p.Want(t.groups.byLease.Has(pathKey(m.Lease, m.Component, m.ID)), "member %s of %s is missing from lease %s", m.ID,
			m.Component, m.Lease)
	}
	p.Want(t.groups.byLease.Size() == t.groups.members.Size(), "%d members by lease, %d in all", t.groups.byLease.Size(),
		t.groups.members.Size())
}
