package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

const kubeLetters = "abcdefghijklmnopqrstuvwxyz0123456789-"

// isKubeName follows RFC 1123's labels, as Kubernetes' namespaces do.
func isKubeName(item string) bool {
	return item != "" && len(item) <= 63 && strings.Trim(item, kubeLetters) == "" && strings.Trim(item, "-") == item
}

// isKubePrefix accepts how a name of a pod may begin.
func isKubePrefix(item string) bool {
	return item != "" && len(item) <= 253 && strings.Trim(item, kubeLetters+".") == ""
}

func kubeName() rule {
	return rule{text: "1 to 63 small letters, digits, '-'", check: func(v any) *fault {
		if name := v.(string); !isKubeName(name) {
			return &fault{fmt.Sprintf("%.80q is not a name of Kubernetes", name),
				"write 1 to 63 small letters, digits or '-', a letter or digit first and last"}
		}
		return nil
	}}
}

// clusterName is a label, too: it stands before a '/' in the file of devices.
func clusterName() rule { return kubeName() }

func isKubeconfig(item string) bool {
	name, path, found := strings.Cut(item, "=")
	return found && isKubeName(name) && filepath.IsAbs(path)
}

// maxKubeNodes bounds a share that is a number; no cluster has more.
const maxKubeNodes = 5000

// share is a number of kube nodes, or a percentage of them.
func share() rule {
	return rule{text: "N up to 5000, or N% up to 100%", check: func(v any) *fault {
		text := v.(string)
		digits, percent := strings.CutSuffix(text, "%")
		n, err := strconv.Atoi(digits)
		if err != nil || n < 0 || percent && n > 100 || n > maxKubeNodes || strings.Trim(digits, "0123456789") != "" {
			return &fault{fmt.Sprintf("%.80q is neither a number nor a percentage", text), "write it as in 2 or 51%"}
		}
		return nil
	}}
}

// checkFailover finds settings that failover needs and that are missing.
func (r *review) checkFailover() {
	f := r.Failover
	r.checkClusterNames("failover", f.Clusters())
	if f.Mode == FailoverOff {
		return
	}
	if len(f.Clusters()) == 0 {
		r.addProblem("failover.kubeconfigs", "failover.mode "+f.Mode+" needs a cluster to watch",
			"write it as in prod=/etc/trivet/prod.kubeconfig, or write failover.in_cluster")
	}
	if f.Mode == FailoverSafe && f.FenceFile == "" {
		r.addProblem("failover.fence_file", "failover.mode safe takes the power of machines, and nothing says how",
			"write the path of a file of devices")
	}
	if f.Mode == FailoverNooBaa && f.NooBaa.Namespace == "" {
		r.addProblem("failover.noobaa_namespace", "failover.mode noobaa needs it", "write the namespace in which NooBaa runs")
	}
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
	if f.Mode == FailoverNooBaa && f.FenceFile != "" {
		r.addProblem("failover.fence_file", "is not used: failover.mode noobaa fences nothing", "write failover.mode: safe")
	}
	if f.Mode == FailoverSafe && f.Detection.LeaseAge < shortLeaseAge {
		r.addProblem("failover.lease_age",
			formatDuration(f.Detection.LeaseAge)+
				" is less than 15s: kube nodes that are merely busy lose their power, unless their kubelets renew more often than every 10s",
			"write 17s")
	}
	if f.Mode == FailoverSafe && f.Guard.MinHealthy == "" && f.Guard.MaxUnhealthy == "" {
		r.addProblem("failover.min_healthy",
			"is empty, and so is failover.max_unhealthy: a fault of the network may switch all kube nodes off", "write 51%")
	}
}
