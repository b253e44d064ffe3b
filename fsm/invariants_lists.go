package fsm

func checkPorts(d *data, p *problems) {
	p.want(d.ports.byID.size() <= MaxPorts, "%d ports", d.ports.byID.size())
	for key, port := range d.ports.byID.all() {
		p.want(string(key) == port.ID, "port %s is filed under %q", port.ID, key)
		if err := port.validate(); err != nil {
			p.addf("%v", err)
		}
		p.want(d.ports.denied.entries.has(macSetKey(port.MAC, port.ID)), "port %s is missing from the blacklist", port.ID)
	}
	checkMACSet(d, p, "blacklist", d.ports.denied, d.ports.byID.size())
	pull := d.ports.pull
	p.want(!pull.Token.IsZero() || pull == Pull{}, "a pull by nobody: %+v", pull)
	p.want(pull.Token <= d.position.Floor, "the pull is of leadership %v, which never was", pull.Token)
	p.want(0 <= pull.At && pull.At <= d.position.Now && 0 <= pull.Ports && pull.Ports <= MaxPorts, "a pull of %d ports at %v", pull.Ports, pull.At)
}

// checkWhitelist compares the whitelist with the records and what Ironic inspects.
func checkWhitelist(d *data, p *problems) {
	booting, macs := 0, 0
	for _, r := range d.nodes.records.all() {
		if r.boots() {
			booting++
		}
		macs += len(r.allowed())
		for _, mac := range r.allowed() {
			p.want(d.nodes.whitelist.entries.has(macSetKey(mac, r.Node)), "node %s is missing from the whitelist under %s", r.Node, mac)
		}
	}
	p.want(d.nodes.booting == booting, "%d nodes are expected to boot, counted are %d", booting, d.nodes.booting)
	checkMACSet(d, p, "whitelist", d.nodes.whitelist, macs+checkInspected(d, p))
}

// checkMACSet verifies a list that has to have so many entries.
func checkMACSet(d *data, p *problems, name string, r macSet, entries int) {
	p.want(r.entries.size() == entries, "the %s has %d entries for %d MACs of owners", name, r.entries.size(), entries)
	count := 0
	for range r.macs() {
		count++
	}
	p.want(r.count == count, "the %s has %d MACs, counted are %d", name, count, r.count)
	checkFeed(d, p, name, r.changed)
}

// checkFeed verifies that a list's changes are in order and within bounds.
func checkFeed(d *data, p *problems, name string, f feed) {
	p.want(f.since <= d.position.Index, "changes of the %s are remembered from %d on, after the last entry", name, f.since)
	last := d.position.Index
	for i, half := range [...]*change{f.newer, f.older} {
		n := 0
		for c := half; c != nil; c = c.before {
			p.want(f.since <= c.index && c.index <= last, "a change of the %s by entry %d is told before one by %d", name, c.index, last)
			last = c.index
			n++
		}
		p.want(n <= maxFeed/2 && (i > 0 || n == f.count), "half %d of the changes of the %s has %d, counted are %d", i, name, n, f.count)
	}
}

func checkDoors(d *data, p *problems) {
	p.want(d.doors.Pass.Address == "", "the pass rule has the address %q", d.doors.Pass.Address)
	p.want((d.doors.Address.Address == "") == d.doors.Address.OpenBy.IsZero(), "the address %q is held by %v", d.doors.Address.Address, d.doors.Address.OpenBy)
	for _, door := range [...]Door{d.doors.Pass, d.doors.Address} {
		p.want(door.OpenBy <= d.position.Floor && door.ClosedBy <= d.position.Floor, "a door of a leadership that never was: %+v", door)
		p.want(validWait(door.Wait) == nil && 0 <= door.Since && door.Since <= d.position.Now, "a door of the future: %+v", door)
		if door.OpenBy.IsZero() {
			p.want(door == Door{ClosedBy: door.ClosedBy} || door == Door{ClosedBy: door.ClosedBy, Unknown: true, Wait: door.Wait, Since: door.Since}, "a shut door: %+v", door)
			continue
		}
		p.want(!door.Unknown && door.Peer != "" && door.OpenBy != door.ClosedBy, "an open door: %+v", door)
	}
}
