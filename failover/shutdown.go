package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/fsm/kubestate"
	"github.com/trivet-ha/trivet/internal/pace"
)

const (
	// shutdownEvery is kept between two questions to a machine that shuts down, and
	// shutdownKnock is how long its kubelet may take to answer one. With darkFor, 1.5 s for
	// the command and its readings, and 0.55 s for taint and pods, its work goes within
	// 12 s of its power.
	shutdownEvery = 250 * time.Millisecond
	shutdownKnock = 500 * time.Millisecond
	// shutdownQuick is for how long a silent machine about which nothing is to be done is asked as
	// often as any other, and shutdownSeldom is kept between two questions to it afterwards: it
	// may stay off for days, and a BMC logs each login.
	shutdownQuick  = time.Minute
	shutdownSeldom = 30 * time.Second
	// loginAgain is how long a device that refused the login is not asked, and maxLogin how long
	// at most when it did again and again: BMCs lock users out.
	loginAgain = time.Minute
	maxLogin   = 32 * time.Minute
	// maxFollowed is how many machines are asked at once; more that shut down together
	// are a storm.
	maxFollowed = 16
)

// follower follows machines that shut down.
type follower struct {
	*clusterController
	refused map[string]login // by device: of one machine that is followed; nil: all are asked
}

// login is how a device refused one.
type login struct {
	rest  time.Duration // that it has
	until time.Time     // when it ends
}

// followShutdowns asks each machine that shuts down on purpose until it is off. No guard
// rail knows sooner that it is not restarted.
func (f follower) followShutdowns(ctx context.Context) {
	if f.settings().Mode != ModeSafe {
		return
	}
	all := 0
	for _, n := range f.tracker.Look().Nodes {
		// What devices remember does not tell a machine that is off from one that restarts.
		if all == maxFollowed || !f.toFollow(n) || !slices.ContainsFunc(f.o.Fences.For(f.judge.machine(n.Node)), asks) {
			continue
		}
		if all++; f.tracker.follow(n, true) {
			f.workers.Go(func() {
				defer f.tracker.follow(n, false)
				follower{f.clusterController, make(map[string]login)}.followShutdown(ctx, n)
			})
		}
	}
}

// toFollow reports whether there is more to know of a machine that shuts down: one whose
// Lease is old is proven off without it, once its power was taken.
func (f follower) toFollow(n WatchedNode) bool {
	if !n.Shutdown.Said {
		return false
	}
	v, _ := f.o.Log.Changed()
	m, open := v.OpenRemediation(f.cluster.Name(), n.UID)
	return !open || !m.WasOff || n.LeaseAge < f.settings().Detection.LeaseAge
}

// followShutdown asks the kubelet of one machine, and its devices as soon as that is
// silent; they are only asked.
func (f follower) followShutdown(ctx context.Context, n WatchedNode) {
	var silent time.Time // since when its kubelet is; zero if it is not
	for f.refresh(&n) && f.toFollow(n) {
		limited, cancel := context.WithTimeout(ctx, shutdownKnock)
		heard := f.o.KubeletProber.Knock(limited, n.Kubelet)
		cancel()
		power := PowerUnknown
		if heard == HeardNothing && f.hearsAnother(ctx, n) {
			if p, sure := f.readPower(ctx, f.judge.machine(n.Node)); sure {
				power = p
			}
		}
		v, _ := f.o.Log.Changed()
		_, peers, _ := v.KubeVotes(f.cluster.Name(), n.UID)
		f.tracker.followed(n, heard, power, peers)
		switch {
		case heard != HeardNothing:
			silent = time.Time{}
		case silent.IsZero():
			silent = time.Now()
		}
		if !f.waitToAsk(ctx, n, silent) {
			return
		}
	}
}

// waitToAsk waits until a machine is to be asked again, and reports whether ctx goes on. One of which
// it matters whether it is off is asked at once.
func (f follower) waitToAsk(ctx context.Context, n WatchedNode, silent time.Time) bool {
	began := time.Now()
	for every := shutdownEvery; pace.Wait(ctx, every); every = lookAgain {
		quick := silent.IsZero() || time.Since(silent) < shutdownQuick || time.Since(began) >= shutdownSeldom
		if quick || !f.refresh(&n) || !f.toFollow(n) || !f.nothingToDo(n) {
			return true
		}
	}
	return false
}

// nothingToDo reports whether nothing is done about a silent machine now, also if it is off: a rail forbids it, but
// that of planned work, which holds until then unless a mark announces a restart; or a budget, or a device that fails.
func (f follower) nothingToDo(n WatchedNode) bool {
	if why := f.judge.refusals(n.UID, nil, beforePower()); len(why) > 0 {
		return n.restarts() != "" || slices.ContainsFunc(why, func(r refusal) bool { return r.rail != plannedRail })
	}
	v, _ := f.o.Log.Changed()
	m, _ := v.OpenRemediation(f.cluster.Name(), n.UID)
	budget, _ := budgetHolds(f.clusterController, n.UID)
	return budget || m.State == kubestate.RemStuck
}

// hearsAnother reports whether this peer hears a kubelet of the cluster besides that of a
// kube node: else the silence may be its own.
func (f follower) hearsAnother(ctx context.Context, n WatchedNode) bool {
	ctx, cancel := context.WithTimeout(ctx, shutdownKnock)
	defer cancel()
	for _, other := range f.tracker.Look().Nodes {
		if other.UID != n.UID && other.Ready == kubestate.ReadyTrue && other.Kubelet != "" &&
			f.o.KubeletProber.Knock(ctx, other.Kubelet) == HeardAlive {
			return true
		}
	}
	return false
}

// refresh brings what is known of a kube node up to date, and reports whether it is there
// and has not booted.
func (f follower) refresh(n *WatchedNode) bool {
	now, there := f.tracker.Look().node(n.UID)
	if there = there && now.BootID == n.BootID; there {
		*n = now
	}
	return there
}

// readPower returns the power of a machine as its devices say when they are only asked: off if one says so at
// least, and none says that it is on. It is sure if one that says so asked the machine itself.
func (f follower) readPower(ctx context.Context, asked Machine) (power Power, sure bool) {
	asked.AskOnly = true
	for _, d := range f.o.Fences.For(asked) {
		last := f.refused[d.Name()]
		if time.Now().Before(last.until) {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, f.settings().Remedy.Timeout)
		p, err := d.Power(limited, asked)
		cancel()
		switch {
		case err != nil:
			if errors.Is(err, ErrLogin) && f.refused != nil {
				last.rest = min(max(loginAgain, 2*last.rest), maxLogin)
				f.refused[d.Name()] = login{last.rest, time.Now().Add(last.rest)}
			}
			f.failing.Info("read power failed", "kube_node", asked.Node, "device", d.Name(), "err", err)
		case p == PowerOn:
			delete(f.refused, d.Name())
			return PowerOn, asks(d)
		case p == PowerOff:
			delete(f.refused, d.Name())
			power, sure = PowerOff, sure || asks(d)
		}
	}
	return power, sure
}
