package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trivet-ha/trivet/app/admin"
)

// What peers look after that have nothing to do.
const (
	idleNodes = 100
	idlePods  = 3000
	// idleSetup bounds how long it takes until all of it is there.
	idleSetup  = 10 * time.Minute
	idleSettle = 30 * time.Second // before it is looked at
	idleLook   = time.Minute      // for how long
	idleMakers = 16               // who make pods at once
)

// failoverIdleRows are what is measured of peers that have nothing to do.
var failoverIdleRows = struct{ leaderRSS, leaderCPU, followerRSS, followerCPU row }{
	row{"failover.idle_rss_mb", "MB", AtMost(120)},
	row{"failover.idle_cpu_percent", "%", AtMost(2)},
	row{"failover.follower_rss_mb", "MB", AtMost(120)},
	row{"failover.follower_cpu_percent", "%", AtMost(2)},
}

// measureFailoverIdle takes what the peers use while 100 kube nodes are well, with
// the settings that are shipped, and beside them what three use that watch nothing.
func measureFailoverIdle(ctx context.Context, b *Bench) (err error) {
	b.Say("failover: %d kube nodes and %d pods that are well", idleNodes, idlePods)
	s, err := newKubeSite(ctx, b, "idle", idleNodes, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	dir, err := b.Folder("beside")
	if err != nil {
		return err
	}
	beside, err := newFleet(ctx, s.fleet[0].binary, dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.end()) }()
	setup, cancel := context.WithTimeout(ctx, idleSetup)
	defer cancel()
	if err := errors.Join(s.fill(setup), s.awaitWell(setup)); err != nil {
		return err
	}
	if err := pause(ctx, idleSettle); err != nil {
		return err
	}
	before, began := busyTime(), time.Now()
	use, err := idleUse(ctx, s.fleet, beside)
	if err != nil {
		return err
	}
	rows, watch, nothing := failoverIdleRows, use[0], use[1]
	add := func(r row, value, other float64, more string) {
		b.Report.Add(r.name, value, r.unit, r.goal, fmt.Sprintf("%.1f %s where nothing is watched%s", other, r.unit, more))
	}
	add(rows.leaderRSS, watch.leader.rss, nothing.leader.rss,
		fmt.Sprintf("; kubelab with %d kube nodes and %d pods, %v; %s", idleNodes, idlePods, idleLook,
			busyShare(before, began)))
	add(rows.leaderCPU, watch.leader.cpu, nothing.leader.cpu, "; of one core")
	add(rows.followerRSS, watch.follower.rss, nothing.follower.rss, "; the greater of two")
	add(rows.followerCPU, watch.follower.cpu, nothing.follower.cpu, "; of one core, the greater of two")
	return nil
}

// fill makes the pods, the same number on every kube node, and waits until they run.
func (s *kubeSite) fill(ctx context.Context) error {
	makers, ctx := errgroup.WithContext(ctx)
	makers.SetLimit(idleMakers)
	for n := range idlePods {
		makers.Go(func() error {
			pod := map[string]any{
				"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprintf("idle-%d", n)},
				"spec": map[string]any{
					"nodeName":   fmt.Sprintf("node-%d", n%idleNodes+1),
					"containers": []any{map[string]string{"name": "c", "image": "none.example.org/none:1"}},
				},
			}
			return s.kube.do(ctx, http.MethodPost, "/api/v1/namespaces/default/pods", typeJSON, pod, nil)
		})
	}
	if err := makers.Wait(); err != nil {
		return fmt.Errorf("make pods: %w", err)
	}
	return nil
}

// awaitWell waits until all pods run, and the leader knows that all kube nodes do and
// that their kubelets answer.
func (s *kubeSite) awaitWell(ctx context.Context) error {
	running := func() error {
		var list struct{ Items []kubeObject }
		if err := s.kube.do(ctx, http.MethodGet, "/api/v1/namespaces/default/pods?fieldSelector=status.phase%3DRunning",
			typeJSON, nil, &list); err != nil {
			return err
		}
		if len(list.Items) < idlePods {
			return fmt.Errorf("%d pods run", len(list.Items))
		}
		return nil
	}
	well := func() error {
		var f admin.Failover
		if err := s.fleet[0].ask(ctx, http.MethodGet, "/v1/failover", nil, &f); err != nil {
			return err
		}
		n := 0
		for _, node := range f.Nodes {
			if node.Ready == "True" && 2*node.Answers > node.Voters {
				n++
			}
		}
		if n < idleNodes {
			return fmt.Errorf("%d of %d kube nodes are well: %+v", n, len(f.Nodes), f.Clusters)
		}
		return nil
	}
	for {
		err := errors.Join(running(), well())
		if err == nil {
			return nil
		}
		if pause(ctx, 5*time.Second) != nil {
			return fmt.Errorf("all kube nodes are well: %w", err)
		}
	}
}

// processUse is resident memory in 10^6 bytes, and processor time in hundredths of a
// core.
type processUse struct{ rss, cpu float64 }

// fleetUse is that of a cluster: of the followers that counts which used more.
type fleetUse struct{ leader, follower processUse }

// idleUse takes what clusters use that have nothing to do, at the same time.
func idleUse(ctx context.Context, fleets ...fleet) ([]fleetUse, error) {
	began, used := time.Now(), make(map[*process]time.Duration)
	var err error
	for _, f := range fleets {
		for _, p := range f {
			if used[p], err = cpuOf(p.serving.Process.Pid); err != nil {
				return nil, err
			}
		}
	}
	if err := pause(ctx, idleLook); err != nil {
		return nil, err
	}
	all := make([]fleetUse, len(fleets))
	for i, f := range fleets {
		leader, _, err := f.roles(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range f {
			now, err := cpuOf(p.serving.Process.Pid)
			if err != nil {
				return nil, err
			}
			cpu := 100 * (now - used[p]).Seconds() / time.Since(began).Seconds()
			rss, err := rssOf(p.serving.Process.Pid, "VmRSS")
			if err != nil {
				return nil, err
			}
			use := &all[i].follower
			if p == leader {
				use = &all[i].leader
			}
			use.rss, use.cpu = max(use.rss, rss), max(use.cpu, cpu)
		}
	}
	return all, nil
}
