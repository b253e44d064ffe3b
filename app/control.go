package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/app/admin"
	"github.com/trivet-ha/trivet/app/health"
	"github.com/trivet-ha/trivet/cluster/pki"
	"github.com/trivet-ha/trivet/fsm"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/leader"
)

func (p *Peer) control(d admin.Doctor) *admin.Control {
	c := &admin.Control{Local: p, Log: p.core.Store, Do: p.core.Session, Admin: p, Membership: p, Safety: p, Keys: p, Trust: p, Snapshots: p.core, Filter: p, Others: p, Doctor: d, Kube: p.kubeControl(), Reloader: p, Drill: p, Bundler: p, Names: p.names, Events: p.events, Admission: p.serving.admission, Report: p.recorder.Report, Logger: p.opts.Logger}
	if p.core.Service != nil {
		c.Import = p.core.Service
	}
	return c
}

// do commits a command for whoever asked; the audit is told.
func (p *Peer) do(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	return api.Traced(p.core.Session).Do(ctx, "", c)
}

// memberCalled returns the member with this name or server ID.
func memberCalled(v fsm.View, nameOrID string) (fsm.Member, error) {
	var found []fsm.Member
	for _, m := range v.Members() {
		if m.ID == nameOrID {
			return m, nil
		}
		if m.Name == nameOrID {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return fsm.Member{}, &api.Error{Status: http.StatusNotFound, Code: api.CodeNotFound,
			Message: fmt.Sprintf("no member is called %q", nameOrID), Hint: "see 'trivet members'"}
	default:
		return fsm.Member{}, &api.Error{Status: http.StatusConflict, Code: api.CodeConflict,
			Message: fmt.Sprintf("%d members are called %q", len(found), nameOrID), Hint: "name it by its ID; see 'trivet members'"}
	}
}

// Transfer implements admin.Admin. Only the leader can; others say who leads.
func (p *Peer) Transfer(ctx context.Context, to string) (string, error) {
	store := p.core.Store
	if role, _ := store.Role(); !role.Leader {
		hint := "no leader is known; see 'trivet status'"
		if l, ok := store.Leader(); ok {
			hint = fmt.Sprintf("run it on %s, which leads", p.nameOf(store.View(), l.ID))
		}
		return "", &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "this peer does not lead", Hint: hint}
	}
	hand, err := p.handOver(to)
	if err == nil {
		err = p.core.HandOn(ctx, hand)
	}
	if err != nil {
		return "", err
	}
	if err := p.awaitLeader(ctx, func(id string) bool { return id != p.id.ID }); err != nil {
		return "", err
	}
	l, _ := store.Leader()
	return p.nameOf(store.View(), l.ID), nil
}

// handOver returns how leadership is given to a member, "" for the best voter.
func (p *Peer) handOver(to string) (func(ctx context.Context) error, error) {
	if to == "" {
		return func(ctx context.Context) error {
			if err := leader.StepDown(ctx, p.core.Store, p.id.ID); err != nil {
				return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: err.Error(), Hint: "see 'trivet peers'"}
			}
			return nil
		}, nil
	}
	m, err := memberCalled(p.core.Store.View(), to)
	if err != nil {
		return nil, err
	}
	for _, srv := range p.core.Store.Servers() {
		if srv.ID == m.ID && srv.Voter && srv.ID != p.id.ID {
			return func(ctx context.Context) error { return p.core.Store.Transfer(ctx, srv) }, nil
		}
	}
	return nil, &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("%s is no other voter", m.Name), Hint: "see 'trivet peers'"}
}

// awaitLeader waits until a leader of which ok holds is known here.
func (p *Peer) awaitLeader(ctx context.Context, ok func(id string) bool) error {
	const pause = 20 * time.Millisecond
	for {
		if l, known := p.core.Store.Leader(); known && ok(l.ID) {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: the new leader is not known yet", raftstore.ErrOutcomeUnknown)
		}
	}
}

// Remove implements admin.Admin.
func (p *Peer) Remove(ctx context.Context, peer string, force bool) error {
	v, err := p.core.Store.Read(ctx)
	if err != nil {
		return err
	}
	former, err := health.FormerCalled(v, peer)
	switch {
	case err != nil:
		return err
	case former != nil:
		return p.removeFormer(ctx, *former, force)
	}
	m, err := memberCalled(v, peer)
	if err != nil {
		return err
	}
	if m.ID == p.id.ID {
		return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: "this is the peer you are talking to", Hint: "run 'trivet leave' here, or 'trivet remove' on another peer"}
	}
	if !force {
		if err := p.refuseLiving(ctx, m); err != nil {
			return err
		}
		if err := p.strands(ctx, m.ID); err != nil {
			return err
		}
	}
	return p.removeMember(ctx, m.ID, force)
}

// removeMember takes a peer out of the table and waits until raft has followed.
func (p *Peer) removeMember(ctx context.Context, id string, force bool) error {
	res, err := p.do(ctx, fsm.RemoveMember{ID: id, Force: force})
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		return err
	}
	return p.awaitMembership(ctx, func() bool { return !p.inRaft(id) })
}

func (p *Peer) inRaft(id string) bool {
	for _, srv := range p.core.Store.Servers() {
		if srv.ID == id {
			return true
		}
	}
	return false
}

// Leave implements admin.Admin: hand leadership on, be removed, and stop. The
// log refuses (with the arithmetic) if the rest could not go on. Where the leader
// says meanwhile, or has said before, that this peer is no member, it has left:
// the answer does not wait for a log that no longer answers this peer.
func (p *Peer) Leave(ctx context.Context, force bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-p.gone:
			cancel()
		case <-ctx.Done():
		}
	})
	err := p.leave(ctx, force)
	if err != nil && p.isGone() {
		p.leaving.Store(true)
		err = nil
	}
	if err == nil {
		p.end(ErrLeft)
	}
	return err
}

// isGone reports whether the leader has said that this peer is no member.
func (p *Peer) isGone() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Left reports whether this peer is no member any more and an operator has told
// it to leave, in whichever order: its log may be wiped. It is final once Stop
// has returned.
func (p *Peer) Left() bool { return p.leaving.Load() && p.isGone() }

func (p *Peer) leave(ctx context.Context, force bool) error {
	if !force {
		if err := p.strands(ctx, p.id.ID); err != nil {
			return err
		}
	}
	if role, _ := p.core.Store.Role(); role.Leader {
		hand, err := p.handOver("")
		if err == nil {
			err = p.core.HandOn(ctx, hand)
		}
		if err != nil {
			return &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("this peer leads and cannot hand leadership on: %v", err),
				Hint: "a cluster cannot lose its last living voter; to end it, remove its data directories"}
		}
		if err := p.awaitLeader(ctx, func(id string) bool { return id != p.id.ID }); err != nil {
			return err
		}
	}
	resume, err := p.rest(ctx, force)
	if err != nil {
		return err
	}
	p.leaving.Store(true)
	res, err := p.do(ctx, fsm.RemoveMember{ID: p.id.ID, Force: force})
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		resume()
		p.leaving.Store(errors.Is(err, raftstore.ErrOutcomeUnknown))
		return err
	}
	return nil
}

// restLimit is how long a peer that leaves waits for its workers: the others
// would have to fail what these are processing.
const restLimit = 15 * time.Second

// rest lets the workers end before this peer is taken out; with force it does
// not wait for more than that.
func (p *Peer) rest(ctx context.Context, force bool) (resume func(), err error) {
	limited, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	resume, err = p.core.Rest(limited)
	if err != nil && !force {
		return nil, &api.Error{Status: http.StatusConflict, Code: api.CodeConflict, Message: fmt.Sprintf("this peer cannot leave yet: %v", err),
			Hint: "try again when they have ended, or use --force: what they are processing then ends in error"}
	}
	if err != nil {
		return func() {}, nil
	}
	return resume, nil
}

// NewJoinToken implements admin.Keys.
func (p *Peer) NewJoinToken(ctx context.Context, ttl time.Duration) (admin.Token, error) {
	t, err := pki.NewJoinToken(pki.HashCA(p.renewal.Credentials().CA), p.opts.Wall().Add(ttl), p.opts.Random)
	if err != nil {
		return admin.Token{}, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error()}
	}
	res, err := p.do(ctx, fsm.AddJoinToken{ID: t.ID, Hash: t.SecretHash(), TTL: ttl})
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		return admin.Token{}, err
	}
	return admin.Token{ID: t.ID, ExpiresIn: ttl.String(), Secret: t.String()}, nil
}

// IssueOperator implements admin.Keys. The key is made here and not kept.
func (p *Peer) IssueOperator(ctx context.Context, name string) (out admin.Credentials, err error) {
	v, err := p.core.Store.Read(ctx)
	if err != nil {
		return out, err
	}
	ca, err := pki.ParseCA(v.Secrets().CACert, v.Secrets().CAKey)
	if err != nil {
		return out, fmt.Errorf("the cluster's CA: %w", err)
	}
	key, err := pki.NewKey(p.opts.Random)
	if err != nil {
		return out, err
	}
	cert, err := ca.Sign(p.opts.Random, p.opts.Wall(), pki.Order{
		Identity: pki.OperatorIdentity(v.ClusterID(), name), PublicKey: &key.PublicKey, TTL: pki.OperatorTTL,
	})
	if err != nil {
		return out, &api.Error{Status: http.StatusBadRequest, Code: api.CodeInvalid, Message: err.Error()}
	}
	if err := p.noteOperator(ctx, v, name, cert); err != nil {
		return out, err
	}
	text, err := pki.EncodeKey(key)
	if err != nil {
		return out, err
	}
	return admin.Credentials{Name: name, CA: string(ca.CertPEM()), Cert: string(cert), Key: string(text)}, nil
}
