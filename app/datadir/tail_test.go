package datadir

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/fsm/membership"
	"github.com/trivet-ha/trivet/fsm/settings"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/host"
	"github.com/trivet-ha/trivet/raftstore/raftguard"
)

// tailMember is a member of the logs below.
func tailMember(id, name, address string) membership.Member {
	return membership.Member{ID: id, Name: name, Address: address, Version: fsm.Version}
}

// extend writes commands to the end of the log in d, each of which applies.
func (f *founder) extend(d *Dir, commands ...fsm.Command) {
	f.t.Helper()
	before := f.log(d)
	index := before.Last
	err := withStorage(host.Open, d.RaftDir(), func(st raftstore.Storage) error {
		log := raftguard.NewLog(st.Log)
		for _, c := range commands {
			data, err := fsm.Encode(fsm.Header{}, c)
			if err != nil {
				return err
			}
			index++
			e := fsm.Entry{Index: index, Term: 2, Data: data}
			if err := before.State.Apply(e).Err(); err != nil {
				return fmt.Errorf("%T: %w", c, err)
			}
			stored := zeroOf(log.StoreLog) // the zero Type is that of a command
			stored.Index, stored.Term, stored.Data = index, e.Term, data
			if err := log.StoreLog(stored); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// zeroOf returns what a function takes: an entry of raft's, which this package does not import.
func zeroOf[T any](func(*T) error) *T { return new(T) }

func (f *founder) log(d *Dir) *host.History {
	f.t.Helper()
	log, err := readLog(d)
	if err != nil {
		f.t.Fatal(err)
	}
	return log
}

// proven makes h2 to h5 members, by entries that the log proves committed but for the last.
func (f *founder) proven(d *Dir) (self Identity) {
	f.t.Helper()
	self, _, err := d.Load()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, n := range []string{"2", "3", "4", "5"} {
		f.extend(d, membership.PutMember{Member: tailMember("id-h"+n, "h"+n, "127.0.0."+n+":7350")})
	}
	f.extend(d, membership.OpenSession{Peer: self.ID, Boot: "x", Version: fsm.Version})
	log := f.log(d)
	session, _ := log.State.View().SessionOf(self.ID)
	f.extend(d, membership.RenewSession{Session: session.ID, Applied: log.Last})
	return self
}

// tails are ends of a log that no other peer need have, by which h2 is where it was no more.
var tails = map[string][]fsm.Command{
	"removed": {membership.RemoveMember{ID: "id-h2", Force: true}},
	"replaced": {membership.RemoveMember{ID: "id-h2", Force: true},
		membership.PutMember{Member: tailMember("id-new", "h2", "127.0.0.2:7350")}},
	"moved": {membership.MoveMember{Peer: "id-h2", Address: "127.0.0.22:7350"}},
	"moved and removed": {membership.MoveMember{Peer: "id-h2", Address: "127.0.0.22:7350"},
		membership.RemoveMember{ID: "id-h2", Force: true}, settings.PutSetting{Key: "user.k", Value: "v"}},
}

// answers returns what peers' hosts answer: each Silent but those that are stopped.
func answers(peers []membership.FormerMember, stopped ...string) (asked []cluster.Asked) {
	for _, m := range peers {
		a := cluster.Asked{FormerMember: m, Presence: cluster.Silent, Detail: "no answer"}
		if slices.Contains(stopped, m.ID) {
			a.Presence = cluster.Stopped
		}
		asked = append(asked, a)
	}
	return asked
}

// Every other peer is asked whether it runs, also one that only the uncommitted end of
// this host's log removes or moves: no other peer need have these entries, so the others
// may go on with it. It counts in the majority, and PXE waits for it.
func TestAPeerOfTheCommittedMembershipIsAsked(t *testing.T) {
	for name, tail := range tails {
		for _, verb := range []string{VerbRecover, VerbRestore, "restore a file with the peers"} {
			t.Run(verb+", "+name, func(t *testing.T) {
				f := newFounder(t)
				f.open(nil, func(d *Dir) {
					f.proven(d)
					if verb != VerbRestore {
						f.file = f.state(d)
					}
					f.extend(d, tail...)
					plan, err := f.plan(d, verb)
					if err != nil {
						t.Fatal(err)
					}
					f.asksH2(plan, strings.HasPrefix(name, "moved"))
					if _, err := f.host.Found(d, plan); err != nil {
						t.Fatal(err)
					}
				})
				f.open(nil, func(d *Dir) {
					former, waited := f.state(d).FormerMember("id-h2")
					if !waited || former.Address != "127.0.0.2:7350" {
						t.Errorf("tail-is-no-fact: PXE does not wait for h2, which was not named lost: %v",
							f.state(d).FormerMembers())
					}
				})
			})
		}
	}
}

// asksH2 demands that h2 is asked, and counts, and judges with h3 to h5 lost and h2 stopped.
func (f *founder) asksH2(plan *Refounding, moved bool) {
	f.t.Helper()
	at := slices.IndexFunc(plan.Others, func(m membership.FormerMember) bool { return m.ID == "id-h2" })
	if at < 0 {
		f.t.Fatalf("tail-is-no-fact: h2, whose removal no majority need have had, is not asked: %v", plan.Others)
	}
	if got := plan.Others[at].Addresses(); !slices.Contains(got, "127.0.0.2:7350") ||
		moved && !slices.Contains(got, "127.0.0.22:7350") {
		f.t.Errorf("tail-is-no-fact: h2 is asked at %v", got)
	}
	lost := []string{"h3", "h4", "h5"}
	var refused *PresenceError
	err := plan.Judge(answers(plan.Others), lost)
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "h2 (127.0.0.2:7350)") {
		f.t.Errorf("tail-is-no-fact: h2 is silent and not named lost: %v", err)
	}
	if plan.Verb == VerbRecover {
		err := plan.Judge(answers(plan.Others, "id-h2", "id-new", "id-h5"), lost[:2])
		if !errors.As(err, &refused) || !strings.Contains(refused.Message, "3 of 5 voters are not named lost") {
			f.t.Errorf("tail-votes: h1, h2 and h5 are a majority of the five of before: %v", err)
		}
	}
	if err := plan.Judge(answers(plan.Others, "id-h2", "id-new"), lost); err != nil {
		f.t.Fatal(err)
	}
}

// A peer that the end of the log adds and removes again may run with those that had the
// first of the two entries.
func TestAPeerInTheMiddleOfTheTailIsAsked(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		f.proven(d)
		f.extend(d, membership.PutMember{Member: tailMember("id-h6", "h6", "127.0.0.6:7350")},
			membership.RemoveMember{ID: "id-h6", Force: true})
		plan, err := f.plan(d, VerbRecover)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(called(plan.Others), "h6") {
			t.Errorf("tail-is-no-fact: h6 is not asked: %v", plan.Others)
		}
	})
}

// What is proven committed is a fact: a peer that was removed is neither asked nor waited
// for. Nor is one waited for that the file has as removed.
func TestAProvenRemovalIsAFact(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		self := f.proven(d)
		f.extend(d, tails["removed"]...)
		log := f.log(d)
		session, _ := log.State.View().SessionOf(self.ID)
		later, err := copied(log.State.View()) // a file of the other peers, which went on
		if err != nil {
			t.Fatal(err)
		}
		plan, err := f.host.PlanRestore(d, later, "")
		if err != nil {
			t.Fatal(err)
		}
		state, _, err := f.host.rewritten(plan)
		if err != nil {
			t.Fatal(err)
		}
		if _, waited := state.View().FormerMember("id-h2"); waited || !slices.Contains(called(plan.Others), "h2") {
			t.Errorf("proven-is-a-fact: PXE waits for h2, which the file has as removed; asked: %v", plan.Others)
		}
		f.extend(d, membership.RenewSession{Session: session.ID, Applied: log.Last})
		for _, verb := range []string{VerbRecover, VerbRestore} {
			plan, err := f.plan(d, verb)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Contains(called(plan.Others), "h2") {
				t.Errorf("proven-is-a-fact: %s: h2 is asked: %v", verb, plan.Others)
			}
		}
	})
}

// The last survivor goes on although the end of its log removes it, while no majority is
// proven to have had that entry: the others died in the middle of 'trivet leave'. All before
// that entry stays, what comes after it is left out.
func TestASurvivorWhoseRemovalIsNotProvenRecovers(t *testing.T) {
	f := newFounder(t)
	var self Identity
	var last uint64
	f.open(nil, func(d *Dir) {
		self = f.proven(d)
		f.extend(d, settings.PutSetting{Key: "user.k", Value: "acknowledged"},
			membership.RemoveMember{ID: self.ID, Force: true},
			membership.PutMember{Member: tailMember("id-h6", "h6", "127.0.0.6:7350")},
			settings.PutSetting{Key: "user.k", Value: "later"})
		last = f.log(d).Last
		plan, err := f.plan(d, VerbRecover)
		if err != nil {
			t.Fatalf("survivor-recovers: %v", err)
		}
		if plan.Last != last || plan.LeftOut != 3 || plan.Uncommitted != 2 || // the renewal, and the setting
			!slices.Equal(called(plan.Others), []string{"h2", "h3", "h4", "h5", "h6"}) {
			t.Errorf("survivor-recovers: last %d of %d, left out %d, uncommitted %d, others %v", plan.Last, last, plan.LeftOut,
				plan.Uncommitted, plan.Others)
		}
		var refused *PresenceError
		if err := plan.Judge(answers(plan.Others, "id-h2", "id-h6"), []string{"h3", "h4", "h5"}); err != nil {
			t.Fatal(err)
		}
		err = plan.Judge(answers(plan.Others, "id-h2", "id-h3", "id-h6"), []string{"h4", "h5"})
		if !errors.As(err, &refused) {
			t.Errorf("survivor-recovers: h2, h3 and h6 are a majority without this host: %v", err)
		}
		if err := plan.Judge(answers(plan.Others), called(plan.Others)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.host.Found(d, plan); err != nil {
			t.Fatal(err)
		}
	})
	f.open(nil, func(d *Dir) {
		v := f.state(d)
		_, member := v.Member(self.ID)
		if k, _ := v.Setting("user.k"); k.Value != "acknowledged" || !member || len(v.Members()) != 1 || v.Index() < last {
			t.Errorf("survivor-recovers: user.k is %q, members %v, index %d of %d", k.Value, v.Members(), v.Index(), last)
		}
	})
}

// A host whose removal the log proves committed is no member: the cluster may have gone
// on without it for long.
func TestAHostThatWasRemovedDoesNotRecover(t *testing.T) {
	f := newFounder(t)
	f.open(nil, func(d *Dir) {
		self := f.proven(d)
		f.extend(d, membership.RemoveMember{ID: self.ID, Force: true},
			membership.OpenSession{Peer: "id-h2", Boot: "x", Version: fsm.Version})
		log := f.log(d)
		session, _ := log.State.View().SessionOf("id-h2")
		f.extend(d, membership.RenewSession{Session: session.ID, Applied: log.Last})
		if _, err := f.plan(d, VerbRecover); err == nil || !strings.Contains(err.Error(), "'trivet join HOST --replace'") {
			t.Errorf("removed-stays-removed: %v", err)
		}
	})
}
