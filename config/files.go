package config

import "slices"

// Access is what a peer does with a file or directory that its configuration names.
type Access uint8

// The kinds of access.
const (
	ReadsFile       Access = iota
	WritesDirectory        // it makes files there
	MakesDirectory         // and makes the directory when it needs it
)

// File is a file or directory of its host that a peer uses.
type File struct {
	Key    string // of the option that names it; "" for the configuration itself
	Where  Origin // where that is written
	Path   string
	Access Access
	// Leads: work that the leader alone does depends on it.
	Leads bool
}

// Files returns the files that a peer with this configuration uses and its host's
// operator makes: the file of the configuration first, and no path of an option that does
// not count. What these files name themselves is not among them.
func (c Config) Files() []File {
	var all []File
	add := func(used, leads bool, access Access, key, path string) {
		if used && path != "" {
			all = append(all, File{Key: key, Where: c.Origin(key), Path: path, Access: access, Leads: leads})
		}
	}
	for _, o := range table {
		if at := c.Origin(o.Key); at.Kind == FromFile && at.Line > 0 {
			all = append(all, File{Path: at.Name})
			break
		}
	}
	api, processing := c.API, c.Inspection.Processing
	add(api.AuthStrategy == "http_basic", false, ReadsFile, "api.http_basic_auth_user_file", api.HTTPBasicAuthUserFile)
	add(api.TLS.Certificate == TLSFiles, false, ReadsFile, "api.tls.cert_file", api.TLS.CertFile)
	add(api.TLS.Certificate == TLSFiles, false, ReadsFile, "api.tls.key_file", api.TLS.KeyFile)
	asked, login := api.AuthStrategy == StrategyKeystone, c.Ironic.AuthType != "none"
	add(asked, false, ReadsFile, "api.keystone.password_file", api.Keystone.PasswordFile)
	add(login, true, ReadsFile, "ironic.password_file", c.Ironic.PasswordFile)
	for section, conf := range c.clientTLS() {
		own := section == "ironic."
		add(own || asked, own, ReadsFile, section+"ca_file", conf.CAFile)
		add(own || asked, own, ReadsFile, section+"cert_file", conf.CertFile)
		add(own || asked, own, ReadsFile, section+"key_file", conf.KeyFile)
	}
	add(slices.Contains(processing.Hooks, "accelerators"), false, ReadsFile, "inspection.accelerators.known_devices",
		c.Inspection.HookOptions.KnownAccelerators)
	add(true, false, MakesDirectory, "inspection.processing.ramdisk_logs_dir", processing.RamdiskLogsDir)
	add(true, false, WritesDirectory, "backup.directory", c.Backup.Directory)
	add(c.Failover.Mode == FailoverSafe, true, ReadsFile, "failover.fence_file", c.Failover.FenceFile)
	for _, k := range c.Failover.Clusters() {
		add(c.Failover.Mode != FailoverOff, true, ReadsFile, "failover.kubeconfigs", k.Kubeconfig)
	}
	for _, r := range c.Events.List() { // not of the leader's work: events wait, and a receiver decides nothing
		add(true, false, ReadsFile, "events.secrets", r.SecretFile)
	}
	add(len(c.Events.Receivers) > 0, false, ReadsFile, "events.ca_file", c.Events.CAFile)
	for _, k := range c.HAConfig.Clusters() {
		add(true, true, ReadsFile, "haconfig.kubeconfigs", k.Kubeconfig)
	}
	return all
}
