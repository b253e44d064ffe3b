package fsm

// checkValues verifies what other programs store here.
func checkValues(d *data, p *problems) {
	p.want(d.values.byKey.size() <= MaxValues, "%d values", d.values.byKey.size())
	bytes := 0
	for key, v := range d.values.byKey.all() {
		bytes += len(v.Data)
		p.want(string(key) == v.Key && validValueKey(v.Key) == nil, "value %q is filed under %q", v.Key, key)
		p.want(!v.Version.IsZero() && v.Version <= d.granted(), "value %s was written by no entry: %v", v.Key, v.Version)
		p.want((v.Lease == "") == v.Token.IsZero(), "value %s was written under lease %q and token %v", v.Key, v.Lease, v.Token)
		p.want(v.Token < v.Version || v.Lease == "", "value %s was written by %v under the later token %v", v.Key, v.Version, v.Token)
	}
	p.want(bytes == d.values.bytes && bytes <= MaxValueBytes, "the values have %d bytes, counted are %d", bytes, d.values.bytes)
}

// checkGroups verifies that members of groups stay as long as their leases.
func checkGroups(d *data, p *problems) {
	p.want(d.groups.members.size() <= MaxGroupMembers, "the groups have %d members", d.groups.members.size())
	for key, m := range d.groups.members.all() {
		p.want(string(key) == string(pathKey(m.Component, m.ID)), "member %s of %s is filed under %q", m.ID, m.Component, key)
		l, _ := d.leases.get([]byte(m.Lease))
		p.want(l.Holder != "" && l.Token == m.Token, "member %s of %s stays by lease %s and token %v, which is over", m.ID, m.Component, m.Lease, m.Token)
		p.want(d.groups.byLease.has(pathKey(m.Lease, m.Component, m.ID)), "member %s of %s is missing from lease %s", m.ID, m.Component, m.Lease)
	}
	p.want(d.groups.byLease.size() == d.groups.members.size(), "%d members by lease, %d in all", d.groups.byLease.size(), d.groups.members.size())
}
