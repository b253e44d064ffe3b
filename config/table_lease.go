package config

// Lease is the section of what other programs borrow.
type Lease struct {
	Enabled bool `key:"enabled"`
}

var leaseOptions = []Option{
	{Key: "lease.enabled", Change: AtRestart, Extent: AllHosts, Default: "false",
		Help: "Whether the API lends leases, values and places in groups to other programs: /v1/leases, /v1/kv, /v1/groups."},
}
