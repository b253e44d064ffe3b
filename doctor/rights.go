package doctor

import "strings"

func judgeRights(f Facts) (out []Finding) {
	for _, r := range f.Rights {
		switch {
		case r.Error != "":
			out = append(out, newFinding(Warning, f,
				[]string{"trivet failover list", "# see failover.kubeconfigs, and whether that API server answers from this host"},
				"cluster %s does not say what this peer may do there: %s", r.Cluster, r.Error))
		case len(r.Missing) > 0:
			out = append(out, newFinding(Error, f, []string{"trivet failover manifest | kubectl apply -f -"},
				"cluster %s does not let this peer: %s", r.Cluster, strings.Join(r.Missing, ", ")))
		}
	}
	return out
}
