package app

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// CheckStart finds what keeps every peer with this configuration from starting and package
// config cannot know: it opens the parts themselves that read values and files alone. A file
// that is missing is no fault here, since it may be made before the start, nor is one that this
// user may not read. Each error begins with the key of an option.
func CheckStart(conf config.Config) []error {
	o := Options{Config: conf, Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}
	var found []error
	for _, open := range []func() error{
		func() error { _, err := o.openSettings(conf.Inspection); return err },
		func() error {
			if conf.API.AuthStrategy == "" { // init and join write one
				return nil
			}
			_, err := o.openAuth(conf.API)
			return err
		},
		func() error { _, err := o.openTLS(); return err },
		func() error { _, err := ironic.New(conf.Ironic, o.Logger); return err },
		func() error { _, err := openReceivers(o); return err },
		func() error {
			if conf.Failover.Mode == config.FailoverOff {
				return nil
			}
			_, err := kubeSettings(conf.Failover)
			return err
		},
		func() error {
			if conf.FloatingIP == (config.FloatingIP{}) {
				return nil
			}
			_, err := floatingip.New(conf.FloatingIP)
			return err
		},
	} {
		if err := open(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			found = append(found, err)
		}
	}
	return found
}
