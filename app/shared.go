package app

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/trivet-ha/trivet/cluster"
	"github.com/trivet-ha/trivet/config"
)

// shared is what a joiner that this peer admits is to have as this peer does:
// what its file says of the cluster, and the users of the API as they are now.
func shared(conf config.Config) (cluster.Shared, error) {
	s := cluster.Shared{Settings: conf.Shared()}
	if conf.API.AuthStrategy != "http_basic" {
		return s, nil
	}
	f, err := os.Open(conf.API.HTTPBasicAuthUserFile)
	if err != nil {
		return s, fmt.Errorf("users of the API: %w", err)
	}
	s.Users, err = io.ReadAll(io.LimitReader(f, cluster.MaxShared+1)) // one more, so that too many show
	return s, errors.Join(err, f.Close())
}
