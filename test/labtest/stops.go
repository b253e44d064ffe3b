package labtest

import (
	"fmt"
	"strings"
)

// The places where a Stoppable stops.
const (
	afterProof = "proof" // before the guard's swap begins, whose time then runs out
	beforeSwap = "swap"  // before the swap is sent to the kernel, which it is in any case
	beforePut  = "put"   // before the address is sent to the kernel
	beforeShow = "show"  // before the swap of the address is sent to the kernel, which it is in any case

	afterStep    = "failover-"         // and a state: that is in the log, and nothing was done after it
	beforeOff    = "failover-unlogged" // the machine is off, and the log does not say so
	beforeMark   = "failover-mark"     // before a change of a Node is sent, which it is in any case
	beforeDelete = "failover-delete"   // before the deletion of a pod is sent, which it is in any case
)

// The parts of a kernel that a Stoppable may believe are missing.
const (
	lacksNftables = "nf_tables"
	lacksSets     = "sets"
)

// edit is what is written in the place of a piece of the product's sources.
type edit struct{ old, new string }

// stops are the edits that make a process stop itself, by file.
func stops() map[string][]edit {
	at := func(place string) string { return "	labstop.At(\"" + place + "\")\n" }
	lacks := func(part, said string) string {
		return `	if err := labstop.Lacks("` + part + `", unix.` + said + `); err != nil`
	}
	return map[string][]edit{
		"firewall/guard.go": {{"	if door {\n", "	if door {\n	" + at(afterProof)}},
		"firewall/nftables/lease.go": {
			{"	err := l.swap(ctx, d, func(f *Filter) []netlink.Message {\n		return append(f.deleteElements(",
				"	place := \"" + beforeShow + "\"\n	if l.filters[0].table.name == Table {\n		place = \"" + beforeSwap +
					"\"\n	}\n	err := l.swap(labstop.Mark(ctx, place), d, func(f *Filter) []netlink.Message {\n" +
					"		return append(f.deleteElements("},
			{"	return l.socket.commit(ctx, 0, changes...)\n",
				"	return labstop.Said(ctx, l.socket.commit(ctx, 0, changes...))\n"},
		},
		"firewall/nftables/socket.go": {
			{"		sent, err := conn.SendMessages(", "		for _, m := range changes {\n		" + lacks(lacksSets, "EOPNOTSUPP") +
				" && int(m.Header.Type)&0xff == unix.NFT_MSG_NEWSET {\n				return err\n			}\n		}\n		labstop.Before(ctx)\n		sent, err := conn.SendMessages("},
			{"	if err := s.dial(); err != nil {\n",
				lacks(lacksNftables, "EINVAL") + " {\n		return err\n	}\n	if err := s.dial(); err != nil {\n"},
		},
		"firewall/floatingip/address.go": {{"	if err := k.AddrReplace(", at(beforePut) + "	if err := k.AddrReplace("}},
		"failover/cluster_controller.go": {{"	s.refuse(d.Node.UID)\n", "	s.refuse(d.Node.UID)\n" + at(afterStep+"intent")}},
		"failover/remedy.go": {
			{"	r.log.Info(\"remediation advanced\"",
				"	labstop.At(\"" + afterStep + "\" + to.String())\n	r.log.Info(\"remediation advanced\""}},
		"failover/remedy_fence.go": {
			{"	return r.move(ctx, m, kubestate.RemOff, \"\", reason)",
				at(beforeOff) + "	return r.move(ctx, m, kubestate.RemOff, \"\", reason)"},
			{"		now, err = s.cluster.Mark(",
				"		ctx = labstop.Mark(ctx, \"" + beforeMark + "\")\n		labstop.Before(ctx)\n		now, err = s.cluster.Mark("},
		},
		"failover/remedy_move.go": {
			{"		return s.cluster.DeletePod(",
				"		ctx = labstop.Mark(ctx, \"" + beforeDelete + "\")\n		labstop.Before(ctx)\n		return s.cluster.DeletePod("}},
	}
}

// withStops is a source with its stops.
func withStops(file, text string) (string, error) { return edited(file, text, stops()[file]...) }

// hooksRegistry is the file of the product that lists the hooks.
const hooksRegistry = "inspector/hooks/hooks.go"

// withPoison is the text of hooksRegistry with one hook more.
func withPoison(text string) (string, error) {
	const first = "	return []inspector.Hook{\n"
	return edited(hooksRegistry, text, edit{first, first + "		poison{},\n"})
}

// edited is a source with edits. Each place must still be there, once: without it a test waits
// in vain, and with two it stops at the wrong one.
func edited(file, text string, edits ...edit) (string, error) {
	for _, e := range edits {
		if n := strings.Count(text, e.old); n != 1 {
			return "", fmt.Errorf("%s has the place that a test edits %d times: %q", file, n, e.old)
		}
		text = strings.ReplaceAll(text, e.old, e.new)
	}
	return text, nil
}
