package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// fleet is a cluster of three processes.
type fleet []*process

// newFleet makes one below root with `trivet init`, `join` and `serve`, and
// waits until all three vote.
func newFleet(ctx context.Context, binary, root string, settings map[string]string) (f fleet, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, f.end())
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	var token string
	for i := range size {
		p, err := newProcess(binary, root, fmt.Sprintf("peer%d", i+1), settings)
		if err != nil {
			return f, err
		}
		f = append(f, p)
		if i == 0 {
			token, err = p.command(ctx, "init", "-q")
		} else {
			_, err = p.command(ctx, "join", f[0].address, "--token", token)
		}
		if err == nil {
			err = p.serve()
		}
		if err == nil {
			err = p.awaitReady(ctx, 0)
		}
		if err != nil {
			return f, err
		}
	}
	return f, until(ctx, "three voters", func() bool {
		s, err := f[0].status(ctx)
		return err == nil && s.Quorum.Voters == size && s.Quorum.Live == size
	})
}

// profileTime is how long the processor time of peers at work is looked at, after a
// second in which the work gets under way.
const profileTime = 2 * time.Second

// profile begins a profile of each peer, if profiles are wanted; wait returns when they
// are written.
func (f fleet) profile(ctx context.Context, b *Bench, work string) (wait func() error) {
	if b.Profiles == "" {
		return func() error { return nil }
	}
	failed := make([]error, len(f))
	var all sync.WaitGroup
	for i, p := range f {
		all.Go(func() {
			if failed[i] = pause(ctx, time.Second); failed[i] == nil {
				failed[i] = p.profile(ctx, filepath.Join(b.Profiles, work+"-"+p.name+".pprof"))
			}
		})
	}
	return func() error {
		all.Wait()
		return errors.Join(failed...)
	}
}

// profile writes a profile of the peer's processor time.
func (p *process) profile(ctx context.Context, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("profile of %s: %w", p.name, err)
	}
	cmd := exec.CommandContext(ctx, p.binary, "debug", "profile", "cpu", "--seconds",
		fmt.Sprint(int(profileTime.Seconds())))
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, f, os.Stderr
	if err := errors.Join(cmd.Run(), f.Close()); err != nil {
		return fmt.Errorf("profile of %s: %w", p.name, err)
	}
	return nil
}

// roles asks who leads and returns that peer and the others.
func (f fleet) roles(ctx context.Context) (leader *process, others fleet, err error) {
	s, err := f[0].status(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range f {
		if p.name == s.Leader {
			leader = p
		} else {
			others = append(others, p)
		}
	}
	if leader == nil {
		return nil, nil, fmt.Errorf("%s knows no leader", f[0].name)
	}
	return leader, others, nil
}

// whole waits until every peer is ready and has applied what any had applied.
func (f fleet) whole(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	index := uint64(0)
	for range 2 { // first look how far the log is, then wait for all
		for _, p := range f {
			if err := p.awaitReady(ctx, index); err != nil {
				return err
			}
			s, err := p.status(ctx)
			if err != nil {
				return err
			}
			index = max(index, s.Index)
		}
	}
	return until(ctx, "three live voters", func() bool {
		s, err := f[0].status(ctx)
		return err == nil && s.Quorum.Voters == size && s.Quorum.Live == size
	})
}

// lose ends the leader with a signal, takes the time until another leader has
// accepted a write that comes in through a third peer, and starts it again.
func (f fleet) lose(ctx context.Context, s os.Signal) (time.Duration, error) {
	if err := f.whole(ctx); err != nil {
		return 0, err
	}
	leader, others, err := f.roles(ctx)
	if err != nil {
		return 0, err
	}
	before, err := leader.status(ctx)
	if err != nil {
		return 0, err
	}
	began, err := leader.signal(s)
	if err != nil {
		return 0, fmt.Errorf("signal %s: %w", leader.name, err)
	}
	writes, err := others.writeUntilNewLeader(ctx, before.Term)
	took := writes.Sub(began)
	return took, errors.Join(err, leader.reap(), leader.serve())
}

// writeUntilNewLeader writes through one of the peers without a pause and
// returns when the first write that the new leader accepted was answered. What
// a stopping leader still accepts does not count: tokens tell the two apart,
// since they rise with the log.
func (f fleet) writeUntilNewLeader(ctx context.Context, term uint64) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	through := f[int(term)%len(f)] // in turn the one that is elected and the other
	for {
		token, err := through.put(ctx)
		if err == nil {
			at := time.Now()
			s, err := through.status(ctx)
			if err != nil {
				return at, err
			}
			if s.Term > term && token > s.Token {
				return at, nil
			}
			continue
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no write was accepted: %w", err)
		}
	}
}

func (f fleet) end() error {
	var errs []error
	for _, p := range f {
		errs = append(errs, p.end())
	}
	return errors.Join(errs...)
}
