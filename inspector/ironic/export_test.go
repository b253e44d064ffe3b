package ironic

// For tests outside of this package.
const (
	HealthyInterval   = healthyInterval
	LastingAfter      = lastingAfter
	PingTimeout       = pingTimeout
	UnhealthyInterval = unhealthyInterval
)
