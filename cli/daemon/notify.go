package daemon

import (
	"fmt"
	"log/slog"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/trivet-ha/trivet/app"
	"github.com/trivet-ha/trivet/cli/cluster"
	"github.com/trivet-ha/trivet/cli/term"
)

// statusEvery is how often systemd is told how the peer stands.
const statusEvery = 5 * time.Second

// notifier speaks to systemd; without systemd it does nothing.
type notifier struct {
	peer     *app.Peer
	log      *slog.Logger
	watchdog bool
	interval time.Duration
	said     string
}

func newNotifier(peer *app.Peer, log *slog.Logger) *notifier {
	n := &notifier{peer: peer, log: log, interval: statusEvery}
	limit, err := systemd.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("parse WATCHDOG_USEC failed; the systemd watchdog is not fed", "err", err)
	}
	if n.watchdog = limit > 0; n.watchdog {
		n.interval = min(statusEvery, limit/3)
	}
	return n
}

func (n *notifier) tell(state string) {
	if _, err := systemd.SdNotify(false, state); err != nil {
		n.log.Debug("notify systemd failed", "err", err)
	}
}

// ready says that the peer answers on its sockets. It does not wait for a
// quorum: three hosts that start together need each other to get there.
func (n *notifier) ready() {
	n.tell(systemd.SdNotifyReady)
	n.beat()
}

// reloading says that the configuration is being read again; the manager wants to
// know since when, by the clock that never jumps. reloaded says that this is over.
func (n *notifier) reloading() {
	n.tell(systemd.SdNotifyReloading + "\n" + systemd.SdNotifyMonotonicUsec())
}

func (n *notifier) reloaded() { n.tell(systemd.SdNotifyReady) }

func (n *notifier) stopping() { n.tell(systemd.SdNotifyStopping) }

// beat gives a sign of life if there is one, and the status if it changed. A
// leader must have committed a probe lately; of any other peer only a living
// main loop is asked (docs/design.md#watchdog).
func (n *notifier) beat() {
	if w := n.peer.Core().Watchdog; n.watchdog && w.Age() <= w.Limit() {
		n.tell(systemd.SdNotifyWatchdog)
	}
	s := n.peer.Status()
	text := fmt.Sprintf("STATUS=%s; leader %s; %s", s.Role, term.Dash(s.Leader), cluster.Arithmetic(s.Quorum))
	if text != n.said {
		n.tell(text)
		n.said = text
	}
}
