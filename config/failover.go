package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const kubeLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// isKubeName follows RFC 1123's labels, as Kubernetes' namespaces do.
func isKubeName(item string) bool { return isName(item, kubeLetters, "-", 63) }

// kubeName is the rule of a name of Kubernetes, and of what a cluster is called, which stands before a '/' in the file
// of devices.
func kubeName() rule {
	return form("1 to 63 small letters, digits, '-'", isKubeName, "is not a name of Kubernetes",
		"write 1 to 63 small letters, digits or '-', a letter or digit first and last")
}

func kubeconfigs() rule { return pairs("NAME=PATH", named(isKubeName, filepath.IsAbs)) }

// maxKubeNodes bounds a share that is a number; no cluster has more.
const maxKubeNodes = 5000

// share is a number of kube nodes, or a percentage of them.
func share() rule {
	return form("N up to 5000, or N% up to 100%", func(text string) bool {
		digits, percent := strings.CutSuffix(text, "%")
		n, err := strconv.Atoi(digits)
		return err == nil && n >= 0 && (!percent || n <= 100) && n <= maxKubeNodes && strings.Trim(digits, "0123456789") == ""
	}, "is neither a number nor a percentage", "write it as in 2 or 51%")
}

// checkFailover finds settings that failover needs and that are missing.
func (r *review) checkFailover() {
	f := r.Failover
	r.checkClusterNames("failover", f.Clusters())
	if f.Mode == FailoverOff {
		return
	}
	r.when(len(f.Clusters()) == 0, "failover.kubeconfigs", "failover.mode "+f.Mode+" needs a cluster to watch",
		"write it as in prod=/etc/trivet/prod.kubeconfig, or write failover.in_cluster")
	r.when(f.Mode == FailoverSafe && f.FenceFile == "", "failover.fence_file",
		"failover.mode safe takes the power of machines, and nothing says how", "write the path of a file of devices")
	r.when(f.Mode == FailoverNooBaa && f.NooBaa.Namespace == "", "failover.noobaa_namespace",
		"failover.mode noobaa needs it", "write the namespace in which NooBaa runs")
	if d := f.Detection; f.Mode == FailoverSafe && d.NotReadyAfter > 0 && d.NotReadyAfter < d.LeaseAge {
		r.addProblem("failover.not_ready_after",
			fmt.Sprintf("%s is less than failover.lease_age (%s), which it would make pointless",
				formatDuration(d.NotReadyAfter), formatDuration(d.LeaseAge)), "write more, or 0s for never")
	}
}

// lookAtFailover warns of what goes unused, and of what may run a pod twice.
func (r *review) lookAtFailover() {
	f := r.Failover
	switch {
	case f.Mode == FailoverNooBaa:
		r.addProblem("failover.mode",
			"noobaa FENCES NOTHING: pods are deleted while their machine may still run them, so that one pod may run twice and write one volume twice",
			"write safe, and failover.fence_file")
	case f.Mode == FailoverOff && len(f.Clusters()) > 0:
		r.addProblem("failover.mode",
			"is not written: a cluster that is named is watched only while a remediation of before is open there",
			"write safe, or remove the section when 'trivet status' warns of no failover_left_open")
	case f.Mode == FailoverSafe && f.NooBaa.Namespace != "":
		r.addProblem("failover.noobaa_namespace", "is not used: failover.mode is safe", "remove it")
	}
	r.when(f.Mode == FailoverNooBaa && f.FenceFile != "", "failover.fence_file",
		"is not used: failover.mode noobaa fences nothing", "write failover.mode: safe")
	r.when(f.Mode == FailoverSafe && f.Detection.LeaseAge < shortLeaseAge, "failover.lease_age",
		formatDuration(f.Detection.LeaseAge)+
			" is less than 15s: kube nodes that are merely busy lose their power, unless their kubelets renew more often than every 10s",
		"write 17s")
	r.when(f.Mode == FailoverSafe && f.Guard.MinHealthy == "" && f.Guard.MaxUnhealthy == "", "failover.min_healthy",
		"is empty, and so is failover.max_unhealthy: a fault of the network may switch all kube nodes off", "write 51%")
}
