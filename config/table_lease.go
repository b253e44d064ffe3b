package config

// Lease is the section of what other programs borrow.
type Lease struct {
	Enabled bool
}

func leaseOptions() []Option {
	return []Option{
		{Key: "lease.enabled", Change: AtRestart, Extent: AllHosts, Default: "false",
			field: func(c *Config) any { return &c.Lease.Enabled },
			Help:  "Whether the API lends leases, values and places in groups to other programs: /v1/leases, /v1/kv, /v1/groups."},
	}
}
