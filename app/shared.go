package app

import (
	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
)

// shared is what a joiner that this peer admits is to have as this peer does: what its
// file says of the cluster, and the users of the API as they are now.
func (d *doorway) shared(conf config.Config) cluster.Shared {
	s := cluster.Shared{Settings: conf.Shared()}
	if basic, ok := d.keeper().auth.(*api.BasicAuth); ok {
		var err error
		if s.Users, err = basic.File(); err != nil {
			s.NoUsers = err.Error()
		}
	}
	return s
}
