package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/trivet-ha/trivet/config"
	"github.com/trivet-ha/trivet/failover/fence"
	"github.com/trivet-ha/trivet/firewall/floatingip"
	"github.com/trivet-ha/trivet/inspector/ironic"
)

// CheckStart finds what keeps every peer with this configuration from starting and package
// config cannot know: it opens the parts themselves that read values and files alone. A file
// that is missing is no fault here, since it may be made before the start, nor is one that this
// user may not read. Each error begins with the key of an option, or is a config.Problems of a
// file that an option names.
func CheckStart(conf config.Config) []error {
	o := Options{Config: conf, Wall: time.Now, Random: rand.Reader, Logger: slog.New(slog.DiscardHandler)}
	client, refused := ironic.New(conf.Ironic, o.Logger)
	var found []error
	for _, open := range append([]func() error{
		func() error { _, err := o.openSettings(conf.Inspection); return err },
		func() error {
			if conf.API.AuthStrategy == "" { // init and join write one
				return nil
			}
			_, err := o.openAuth(conf.API)
			return err
		},
		func() error { _, err := o.openTLS(); return err },
		func() error { return refused },
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
		func() error { return o.checkFences(client) },
	}, o.kubeconfigChecks()...) {
		if err := open(); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			found = append(found, err)
		}
	}
	return found
}

// checkFences opens the file of devices. What is wrong with a file that it names is told where all
// of these are looked at (ServiceFaults).
func (o Options) checkFences(client fence.Ironic) error {
	conf := o.Config.Failover
	if conf.Mode != config.FailoverSafe {
		return nil
	}
	list, err := o.fenceOpener(client, nil)(conf.FenceFile)
	if err == nil {
		list.Close()
		return nil
	}
	problems, told := errors.AsType[config.Problems](err)
	if !told {
		return err
	}
	for _, f := range fence.Files(conf.FenceFile) {
		if use(f) != nil {
			problems = slices.DeleteFunc(problems, func(p config.Problem) bool { return p.Key == f.Key && p.Where == f.Where })
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return problems
}

// kubeconfigChecks read the kubeconfigs. What a pod has in the place of one is looked at by its peer.
func (o Options) kubeconfigChecks() (checks []func() error) {
	add := func(key string, used bool, clusters []config.KubeCluster) {
		for _, c := range clusters {
			if !used || c.Kubeconfig == "" {
				continue
			}
			checks = append(checks, func() error {
				cluster, err := openCluster(o, "", c)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				cluster.Close()
				return nil
			})
		}
	}
	add("failover.kubeconfigs", o.Config.Failover.Mode != config.FailoverOff, o.Config.Failover.Clusters())
	add("haconfig.kubeconfigs", o.Config.HAConfig.On(), o.Config.HAConfig.Clusters())
	return checks
}
