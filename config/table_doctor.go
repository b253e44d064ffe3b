package config

import "path"

// Doctor is where 'trivet doctor' looks on this host.
type Doctor struct {
	DnsmasqConf []string // files, and directories as of dnsmasq's conf-dir
}

func doctorOptions() []Option {
	return []Option{
		{Key: "doctor.dnsmasq_conf", Change: AtReload, Extent: MostHosts, Default: "/etc/dnsmasq.conf,/etc/dnsmasq.d",
			rule: pairs("an absolute path", path.IsAbs), field: func(c *Config) any { return &c.Doctor.DnsmasqConf },
			Help: "Files and directories that dnsmasq on this host is configured by. What they include is found."},
	}
}
