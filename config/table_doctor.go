package config

import "path"

// Doctor is where 'trivet doctor' looks on this host.
type Doctor struct {
	DnsmasqConf []string `key:"dnsmasq_conf"` // files, and directories as of dnsmasq's conf-dir
}

var doctorOptions = []Option{
	{Key: "doctor.dnsmasq_conf", Change: AtReload, Extent: MostHosts, Default: "/etc/dnsmasq.conf,/etc/dnsmasq.d",
		rule: pairs("an absolute path", path.IsAbs),
		Help: "Files and directories that dnsmasq on this host is configured by. What they include is found."},
}
