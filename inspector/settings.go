package inspector

import (
	"cmp"
	"runtime"
	"sync"

	"github.com/trivet-ha/trivet/config"
)

// Settings are what introspections are done by. They are a value: one that was
// handed over is never changed.
type Settings struct {
	Config config.Inspection
	Hooks  []Hook    // those that Config names, in its order
	Logs   LogKeeper // of ramdisks; nil: they are thrown away
}

// LiveSettings holds the settings in force. A task of several steps reads them once,
// so that it is done by one configuration from beginning to end; what begins after
// Set is done by the new one. All methods may be called concurrently.
type LiveSettings struct {
	mu      sync.Mutex
	now     Settings
	changed chan struct{} // closed by the next Set
}

// NewLiveSettings returns settings that Set may replace.
func NewLiveSettings(s Settings) *LiveSettings {
	return &LiveSettings{now: s, changed: make(chan struct{})}
}

// Now returns the settings in force.
func (l *LiveSettings) Now() Settings {
	now, _ := l.Watch()
	return now
}

// Config is that of Now.
func (l *LiveSettings) Config() config.Inspection { return l.Now().Config }

// BmcFields are the fields of driver_info that may hold the address of a BMC.
func (l *LiveSettings) BmcFields() []string { return l.Config().IPMIAddressFields }

// Watch returns the settings in force, and a channel that is closed when they
// are replaced.
func (l *LiveSettings) Watch() (Settings, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.changed
}

// Set puts other settings in force.
func (l *LiveSettings) Set(s Settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.now, l.changed = s, make(chan struct{})
}

// Workers is how many requests are worked on at once.
func (s Settings) Workers() int {
	return cmp.Or(s.Config.Workers, runtime.NumCPU())
}
