package config

import "time"

// Values of failover.mode.
const (
	FailoverOff    = ""
	FailoverSafe   = "safe"
	FailoverNooBaa = "noobaa"
)

// shortLeaseAge is below which starved kube nodes look like dead ones: kubelets
// renew every 10 s, and a busy host was measured 5 s late.
const shortLeaseAge = 15 * time.Second

// Failover is the section of kube nodes. Nothing of it is looked at, opened or
// started while Mode is FailoverOff.
type Failover struct {
	Mode        string   `key:"mode"`
	DryRun      bool     `key:"dry_run"`
	Kubeconfigs []string `key:"kubeconfigs"` // NAME=PATH each
	InCluster   string   `key:"in_cluster"`  // name of the cluster in which this peer is a pod; "": it is none
	FenceFile   string   `key:"fence_file"`
	PowerOn     bool     `key:"power_on"` // when everything is detached
	Detection   FailoverDetection
	Guard       FailoverGuard
	Filter      FailoverFilter
	Retries     int           `key:"retries"` // of a call to an API server
	RetryPause  time.Duration `key:"retry_interval"`
	Timeout     time.Duration `key:"timeout"`
	NooBaa      FailoverNooBaaMode
}

// FailoverDetection is when a kube node counts as dead.
type FailoverDetection struct {
	LeaseAge      time.Duration `key:"lease_age"`
	Hold          time.Duration `key:"hold"`
	NotReadyAfter time.Duration `key:"not_ready_after"` // 0: the condition alone never counts
	ProbeInterval time.Duration `key:"probe_interval"`
	ProbeTimeout  time.Duration `key:"probe_timeout"`
	ProbeMisses   int           `key:"probe_misses"`
}

// FailoverGuard is what keeps failover from doing harm.
type FailoverGuard struct {
	MinHealthy    string        `key:"min_healthy"`   // N or N%; "": no bound
	MaxUnhealthy  string        `key:"max_unhealthy"` // N or N%; "": no bound
	StormCooldown time.Duration `key:"storm_cooldown"`
	NodeRate      int           `key:"node_rate"` // remediations of one kube node an hour
	HealthyDelay  time.Duration `key:"healthy_delay"`
}

// FailoverFilter is what failover keeps to; empty: everything.
type FailoverFilter struct {
	Namespaces   []string `key:"namespaces"`
	PodSelector  string   `key:"pod_selector"`
	NodeSelector string   `key:"node_selector"`
}

// FailoverNooBaaMode is what mode noobaa needs.
type FailoverNooBaaMode struct {
	Namespace      string   `key:"noobaa_namespace"`
	ExemptPrefixes []string `key:"noobaa_exempt_prefixes"` // of names of pods
}

// Clusters lists what failover watches, in the order of the configuration.
func (f Failover) Clusters() []KubeCluster { return kubeClusters(f.Kubeconfigs, f.InCluster) }

var failoverOptions = []Option{
	{Key: "failover.mode", Change: AtRestart, Extent: AllHosts, rule: oneOf(FailoverOff, FailoverSafe, FailoverNooBaa),
		Help: "Empty: off. safe takes the power from a kube node that died, proves it, and then moves its pods and volumes. noobaa does what NooBaa's controller does: it deletes the pods WITHOUT FENCING, so that one pod may run twice. The same on all peers."},
	{Key: "failover.dry_run", Change: AtRestart, Extent: AllHosts, Default: "false",
		Help: "Whether nothing is done and 'trivet failover list' only says what would be."},
	{Key: "failover.kubeconfigs", Change: AtRestart, Extent: MostHosts, rule: kubeconfigs(),
		Help: "Clusters to watch, each a name of your own and the absolute path of a kubeconfig, as in prod=/etc/trivet/prod.kubeconfig. On every peer; 'trivet failover manifest' prints the rights they need."},
	{Key: "failover.in_cluster", Change: AtRestart, Extent: MostHosts, rule: orEmpty(kubeName()),
		Help: "Name for the cluster in which this peer itself runs as a pod, if it does."},
	{Key: "failover.fence_file", Change: AtReload, Extent: MostHosts, rule: orEmpty(absolutePath(maxText)),
		With: []string{"failover.kubeconfigs", "failover.in_cluster"},
		Help: "File (YAML) of the devices that switch machines off: Ironic, Redfish, or a program of fence-agents. It is read when the peer starts and when the configuration is read again; while other clusters or kubeconfigs wait for a restart it waits with them."},
	{Key: "failover.power_on", Change: AtReload, Extent: AllHosts, Default: "false",
		Help: "Whether the machine is switched on again when its pods are deleted and its volumes detached."},
	{Key: "failover.lease_age", Change: AtReload, Extent: AllHosts, Default: "17s", rule: between(time.Second, time.Hour),
		Help: "For how long a kube node must not have renewed its Lease to be suspected, when most peers get no answer from its kubelet either. Kubelets renew every 10s."},
	{Key: "failover.hold", Change: AtReload, Extent: AllHosts, Default: "2s", rule: between(0, 5*time.Minute),
		Help: "For how long most peers must get no answer from its kubelet before anything is done; that time runs while the Lease grows old."},
	{Key: "failover.not_ready_after", Change: AtReload, Extent: AllHosts, Default: "5m", rule: between(0, 24*time.Hour),
		Help: "A kube node that is not Ready for so long is suspected even if its Lease is renewed and its kubelet answers. 0s: never."},
	{Key: "failover.probe_interval", Change: AtRestart, Extent: AllHosts, Default: "2s",
		rule: between(200*time.Millisecond, time.Minute),
		Help: "How often every peer asks each kubelet for a sign of life."},
	{Key: "failover.probe_timeout", Change: AtRestart, Extent: AllHosts, Default: "2s",
		rule: between(100*time.Millisecond, 30*time.Second),
		Help: "How long a kubelet may take to give one."},
	{Key: "failover.probe_misses", Change: AtRestart, Extent: AllHosts, Default: "3", rule: number(1, 100),
		Help: "How many in a row must be missing for this peer to call it silent."},
	{Key: "failover.min_healthy", Change: AtReload, Extent: AllHosts, Default: "51%", rule: orEmpty(share()),
		Help: "Nothing is begun while fewer of a cluster's kube nodes than this are healthy: when most fall silent together, the fault is elsewhere. N or N%. Those that are being remediated are not healthy."},
	{Key: "failover.max_unhealthy", Change: AtReload, Extent: AllHosts, rule: orEmpty(share()),
		Help: "Nothing is begun while more than this are unhealthy, the new one counted. N or N%. Empty: min_healthy alone."},
	{Key: "failover.storm_cooldown", Change: AtReload, Extent: AllHosts, Default: "5m", rule: between(0, 24*time.Hour),
		Help: "How long nothing is begun after too many were unhealthy."},
	{Key: "failover.node_rate", Change: AtReload, Extent: AllHosts, Default: "3", rule: number(1, 60),
		Help: "Most remediations of one kube node within an hour."},
	{Key: "failover.healthy_delay", Change: AtReload, Extent: AllHosts, Default: "60s", rule: between(0, 24*time.Hour),
		Help: "How long a kube node that came back must stay Ready before our taints are taken from it, and before it may be remediated again."},
	{Key: "failover.namespaces", Change: AtReload, Extent: AllHosts, rule: pairs("names of namespaces", isKubeName),
		Help: "Delete pods of these namespaces alone. Empty: of all. What is not deleted here Kubernetes moves, within its own time, once the kube node is tainted."},
	{Key: "failover.pod_selector", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Delete pods alone whose labels this selector matches, as in app=noobaa,tier!=cache. Empty: all."},
	{Key: "failover.node_selector", Change: AtReload, Extent: AllHosts, rule: anyText(),
		Help: "Look after kube nodes alone whose labels this selector matches. Empty: all."},
	{Key: "failover.retries", Change: AtRestart, Extent: AllHosts, Default: "5", rule: number(0, 100),
		Help: "How often a call to an API server that failed is tried again."},
	{Key: "failover.retry_interval", Change: AtRestart, Extent: AllHosts, Default: "1s", rule: between(0, time.Minute),
		Help: "Pause before a call is tried again."},
	{Key: "failover.timeout", Change: AtRestart, Extent: AllHosts, Default: "10s",
		rule: between(100*time.Millisecond, time.Minute),
		Help: "How long one try of a call may take."},
	{Key: "failover.noobaa_namespace", Change: AtRestart, Extent: AllHosts, rule: orEmpty(kubeName()),
		Help: "Mode noobaa: the namespace whose pods with the label app=noobaa are deleted."},
	{Key: "failover.noobaa_exempt_prefixes", Change: AtRestart, Extent: AllHosts, Default: "noobaa-db-pg-",
		rule: pairs("how names of pods begin", func(item string) bool { return isName(item, kubeLetters+".", "", 253) }),
		Help: "Mode noobaa: pods whose names begin so are left alone."},
}
