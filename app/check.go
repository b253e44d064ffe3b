package app

import (
	"errors"
	"io/fs"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/inspector/hooks"
)

// CheckStart finds what keeps every peer with this configuration from starting and package
// config cannot know: it asks the parts themselves. A file that is missing is no fault here,
// since it may be made before the start. Each error begins with the key of an option.
func CheckStart(conf config.Config) []error {
	var found []error
	_, err := hooks.New(conf.Inspection)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		found = append(found, err)
	}
	if conf.Failover.Mode != config.FailoverOff {
		if _, err := kubeSettings(conf.Failover); err != nil {
			found = append(found, err)
		}
	}
	if conf.FloatingIP != (config.FloatingIP{}) {
		if _, err := floatingip.New(conf.FloatingIP); err != nil {
			found = append(found, err)
		}
	}
	return found
}
