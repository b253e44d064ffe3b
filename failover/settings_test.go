package failover

import "time"

// percent returns the share of n hundredths.
func percent(n int) Share { return Share{set: true, percent: true, n: n} }

// defaultSettings returns the defaults of the configuration, with which app's
// TestDefaultsOfTheConfigurationAreFailovers compares them; the mode is off.
func defaultSettings() Settings {
	return Settings{
		Detection: Detection{LeaseAge: 17 * time.Second, Hold: 2 * time.Second, NotReadyAfter: 5 * time.Minute},
		Probe:     Probe{Interval: 2 * time.Second, Timeout: 2 * time.Second, Misses: 3},
		Guard: Guard{
			MinHealthy: percent(51), StormCooldown: 5 * time.Minute, NodeRate: 3, HealthyDelay: time.Minute,
		},
		Remedy: Remedy{Retries: 5, RetryInterval: time.Second, Timeout: 10 * time.Second},
		NooBaa: NooBaa{Exempt: []string{"noobaa-db-pg-"}},
	}
}
