package main

import "slices"

func haconfigMutants() []Mutant {
	return slices.Concat(conventionMutants(), webhookMutants(), namespaceMutants(), clusterMutants(), haPlaceMutants(), haRuleMutants())
}

// haPlaceMutants take the zones of kube nodes for others.
func haPlaceMutants() []Mutant {
	const unit = "./haconfig"
	return []Mutant{
		{
			Name: "zones-lost-with-their-kube-nodes", Promise: "haconfig", File: "haconfig/annotate.go",
			Old:     "	if len(found) > len(kept) {\n",
			New:     "	if len(found) > 0 {\n",
			Package: unit, Run: "^TestZonesFromNodes$", Assertion: "zones-of-nodes: zones are lost",
		},
		{
			Name: "zones-of-nodes-over-a-person's-word", Promise: "haconfig", File: "haconfig/annotate.go",
			Old:     "	if there && !mark.is(w.key, has) {\n",
			New:     "	if there && mark.Token == 0 {\n",
			Package: unit, Run: "^TestZonesFromNodes$", Assertion: "a person's word",
		},
		{
			Name: "zones-of-all-pools", Promise: "haconfig", File: "haconfig/places.go",
			Old:     "		if zones := zonesOf(pools[name]); len(zones) > len(most) {\n",
			New:     "		if zones := zonesOf(places); name == \"\" || len(zones) > len(most) {\n",
			Package: unit, Run: "^TestSystemZones$", Assertion: "zones-of-a-pool: two pools are not added",
		},
		{
			Name: "pinned-zones-replaced", Promise: "haconfig", File: "haconfig/annotate.go",
			Old:     "			found = distinct(append(found, kept...))\n",
			New:     "			found = distinct(found)\n",
			Package: unit, Run: "^TestZonesFromNodes$", Assertion: "zones-of-nodes: more",
		},
	}
}

// haRuleMutants take components without a label for others.
func haRuleMutants() []Mutant {
	const unit = "./haconfig"
	return []Mutant{
		{
			Name: "rule-over-the-label", Promise: "haconfig", File: "haconfig/kinds.go",
			Old:     "kind := labels[c.Names.Type()]; kind != \"\" {",
			New:     "kind := labels[c.Names.Type()]; kind != \"\" && len(c.Components) == 0 {",
			Package: unit, Run: "^TestComponentsByRule$", Assertion: "component-by-rule",
		},
		{
			Name: "observability-by-the-label", Promise: "haconfig", File: "haconfig/replicas.go",
			Old:     "	if of.ruled && of.kind == observability {\n",
			New:     "	if of.kind == observability {\n",
			Package: unit, Run: "^TestComponentsByRule$", Assertion: "component-by-rule",
		},
		{
			Name: "no-budget-by-rule", Promise: "haconfig", File: "haconfig/budgets.go",
			Old:     "		kind, _ := c.typeOf(of.Namespace, of.Name, o.Metadata.Labels)\n",
			New:     "		kind := o.Metadata.Labels[c.Names.Type()]\n",
			Package: unit, Run: "^TestBudgetsByRule$", Assertion: "budget-by-rule",
		},
		{
			Name: "advice-silent-about-what-has-no-type", Promise: "haconfig", File: "haconfig/advice.go",
			Old:     "	if of.Considered && kind == \"\" {\n",
			New:     "	if of.Considered && kind == \"\" && ruled {\n",
			Package: unit, Run: "^TestAdviceNamesWhatHasNoType$", Assertion: "no-type: other no-type is false",
		},
	}
}

// clusterMutants take one cluster for another.
func clusterMutants() []Mutant {
	const unit = "./haconfig"
	return []Mutant{
		{
			Name: "review-of-another-cluster", Promise: "haconfig", File: "haconfig/review.go",
			Old:     "		if of.Name == name && name != \"\" {\n",
			New:     "		if name != \"\" {\n",
			Package: unit, Run: "^TestEachClusterHasItsPath$", Assertion: "settings-of-another-cluster",
		},
		{
			Name: "first-cluster-answers-for-all", Promise: "haconfig", File: "haconfig/review.go",
			Old:     "	if name == \"\" && len(h.o.Clusters) == 1 {\n",
			New:     "	if name == \"\" {\n",
			Package: unit, Run: "^TestEachClusterHasItsPath$", Assertion: "path-of-no-cluster",
		},
		{
			Name: "ca-in-a-registration-that-asks-elsewhere", Promise: "haconfig", File: "haconfig/duty.go",
			Old:     "!strings.HasSuffix(path, ReviewPath(k.o.Cluster)) && !(k.o.Alone",
			New:     "!strings.Contains(path, PathMutate) && !(k.o.Alone",
			Package: unit, Run: "^TestRegistrationOfAnotherCluster$", Assertion: "ca-for-another-cluster",
		},
		{
			Name: "zones-of-a-cluster-that-is-away-are-forgotten", Promise: "haconfig", File: "haconfig/census.go",
			Old:     "return !listed || uids[uid]",
			New:     "return listed && uids[uid]",
			Package: unit, Run: "^TestClustersKeepTheirZones$", Assertion: "forgotten-while-away",
		},
		{
			Name: "census-of-an-earlier-leadership-counts", Promise: "haconfig", File: "haconfig/census.go",
			Old:     "		clear(c.there)\n",
			New:     "		c.clusters = c.clusters[:]\n",
			Package: unit, Run: "^TestCensusOfAnEarlierLeadership$", Assertion: "census-of-another-leadership",
		},
		{
			Name: "rules-of-another-cluster", Promise: "haconfig", File: "config/haconfig_rules.go",
			Old:     "parseNamespaceRule(item); err == nil && (r.Cluster == \"\" || r.Cluster == cluster)",
			New:     "parseNamespaceRule(item); err == nil && (r.Cluster == \"\" || cluster != \"\")",
			Package: "./config", Run: "^TestRulesOfACluster$", Assertion: "rule-of-a-cluster",
		},
		{
			Name: "one-cluster-away-keeps-the-registration-in-all", Promise: "haconfig", File: "cli/kube/haconfig_uninstall.go",
			Old:     "failed = append(failed, dropRegistration(ctx, t, of, one))",
			New:     "if failed = append(failed, dropRegistration(ctx, t, of, one)); failed[0] != nil {\n				break\n			}",
			Package: "./cli", Run: "^TestHAConfigUninstallOfSeveral$", Assertion: "uninstall-of-the-others",
		},
	}
}

// conventionMutants decide otherwise than the original.
func conventionMutants() []Mutant {
	const unit = "./haconfig"
	return []Mutant{
		{
			Name: "empty-tolerance-is-none", Promise: "haconfig", File: "haconfig/input.go",
			Old:     "	case !t.said:\n",
			New:     "	case t.text == \"\":\n",
			Package: unit, Run: "^TestReplicaTable$", Assertion: "tolerance:empty",
		},
		{
			Name: "lint-ends-at-what-it-has-no-use-for", Promise: "haconfig", File: "haconfig/documents.go",
			Old:     "	if !matters(kindOf(textAt(object, \"apiVersion\"), kind)) {",
			New:     "	if kind == \"\" {",
			Package: unit, Run: "^TestDocumentsOfNoUse$", Assertion: "rest-is-judged:",
		},
		{
			Name: "hibernated-component-woken", Promise: "haconfig", File: "haconfig/replicas.go",
			Old:     "of.replicas == nil || *of.replicas == 0 ||",
			New:     "of.replicas == nil ||",
			Package: unit, Run: "^TestVectors$", Assertion: "replicas-zero-hibernated",
		},
		{
			Name: "scaled-component-lowered", Promise: "haconfig", File: "haconfig/mutate.go",
			Old:     "(!scaled || *replicas < *wanted)",
			New:     "(!scaled || *replicas != *wanted)",
			Package: unit, Run: "^TestVectors$", Assertion: "hpa-target-higher",
		},
		{
			Name: "zone-term-instead-of-requirement", Promise: "haconfig", File: "haconfig/affinity.go",
			Old:     "		term[\"matchExpressions\"] = append(kept, ",
			New:     "		term[\"matchExpressions\"] = append(kept[:0], ",
			Package: unit, Run: "^TestVectors$", Assertion: "affinity-merge-two-terms",
		},
		{
			Name: "single-node-enforced", Promise: "haconfig", File: "haconfig/tables.go",
			Old:     "f.hostSpread) && f.several",
			New:     "f.hostSpread) || f.several && false",
			Package: unit, Run: "^TestVectors$", Assertion: "tsc-single-node",
		},
		{
			Name: "toleration-of-another-effect-counts", Promise: "haconfig", File: "haconfig/toleration.go",
			Old:     "(effect == \"\" || effect == string(t.Effect))",
			New:     "(effect != \"-\" || effect == string(t.Effect))",
			Package: unit, Run: "^TestVectors$", Assertion: "tol-existing-noschedule",
		},
		{
			Name: "revision-added-again", Promise: "haconfig", File: "haconfig/spread.go",
			Old:     "	if slices.Contains(keys, any(appsv1.DefaultDeploymentUniqueLabelKey)) {\n",
			New:     "	if slices.Contains(keys, any(\"\")) {\n",
			Package: unit, Run: "^TestMutateIsIdempotent$", Assertion: "is changed again",
		},
		{
			Name: "missing-parents-not-made", Promise: "haconfig", File: "haconfig/patch.go",
			Old:     "		if !slices.Contains(p.here, above) {\n",
			New:     "		if slices.Contains(p.here, above) {\n",
			Package: unit, Run: "^TestMutateIsIdempotent$", Assertion: "[rapid] failed",
		},
	}
}

// webhookMutants admit what was not looked at, or write without a proof of
// leadership.
func webhookMutants() []Mutant {
	const unit, cluster = "./haconfig", "./haconfig/kube"
	return []Mutant{
		{
			Name: "admitted-though-unread", Promise: "haconfig", File: "haconfig/review.go",
			Old:     "	err := unread\n",
			New:     "	_, err := unread, error(nil)\n",
			Package: unit, Run: "^TestNotAdmitted$", Assertion: "namespace cannot be read",
		},
		{
			Name: "panic-not-caught", Promise: "haconfig", File: "haconfig/review.go",
			Old:     "fault := recover(); fault != nil",
			New:     "fault := any(nil); fault != nil",
			Package: unit, Run: "^TestNotAdmitted$", Assertion: "out of order",
		},
		{
			Name: "reviews-without-bound", Promise: "haconfig", File: "haconfig/review.go",
			Old:     "http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength, maxReview)",
			New:     "http.MaxBytesReader(w, r.Body, 4*maxReview), r.ContentLength, 4*maxReview)",
			Package: unit, Run: "^TestMalformed$", Assertion: "400 this is no AdmissionReview",
		},
		{
			Name: "registration-written-without-proof", Promise: "haconfig", File: "haconfig/duty.go",
			Old:     "		if err != nil {\n			return err\n		}\n		defer cancel()\n		return call(ctx)\n",
			New:     "		if err != nil {\n			return call(context.Background())\n		}\n		defer cancel()\n		return call(ctx)\n",
			Package: unit, Run: "^TestBundle$", Assertion: "written without proof of leadership",
		},
		{
			Name: "dead-peer-stays-in-the-service", Promise: "haconfig", File: "haconfig/endpoints.go",
			Old:     "			r.missed[host] = misses\n",
			New:     "			r.missed[host] = 0\n",
			Package: unit, Run: "^TestEndpointsFollowThePeers$", Assertion: "connection refused",
		},
		{
			Name: "stale-surroundings-for-ever", Promise: "haconfig", File: "haconfig/kube/cache.go",
			Old:     "!e.read.IsZero() && age < staleTTL",
			New:     "!e.read.IsZero()",
			Package: cluster, Run: "^TestNamespaceCannotBeRead$", Assertion: "it serves for ever",
		},
		{
			Name: "namespace-that-is-gone-serves", Promise: "haconfig", File: "haconfig/kube/cache.go",
			Old:     "	if known && !final(e.err) {\n",
			New:     "	if known {\n",
			Package: cluster, Run: "^TestGoneIsGone$", Assertion: "taken for what it was",
		},
		{
			Name: "bundle-put-into-any-version", Promise: "haconfig", File: "haconfig/kube/write.go",
			Old:     "{\"test\", \"/metadata/resourceVersion\", r.Version}",
			New:     "{\"add\", \"/metadata/annotations\", map[string]string{}}",
			Package: cluster, Run: "^TestRegistration$", Assertion: "it holds for another, too",
		},
	}
}

// namespaceMutants choose zones again, or write over what somebody else wrote.
func namespaceMutants() []Mutant {
	const unit, log = "./haconfig", "./fsm"
	return []Mutant{
		{
			Name: "zones-chosen-anew", Promise: "haconfig", File: "haconfig/annotate.go",
			Old:     "a.View().ZoneChoice(n.UID)",
			New:     "a.View().ZoneChoice(n.Version)",
			Package: unit, Run: "^TestZonesAreKept$", Assertion: "chosen-anew",
		},
		{
			Name: "zones-chosen-over-a-choice", Promise: "haconfig", File: "fsm/kube_zones.go",
			Old:     "	case old.Chosen != c.Replaces:\n",
			New:     "	case known && !c.Replaces.IsZero() && old.Chosen != c.Replaces:\n",
			Package: log, Run: "^TestZonesAreChosenOnce$", Assertion: "zones-chosen-anew",
		},
		{
			Name: "two-zones-survive-one", Promise: "haconfig", File: "haconfig/namespaces.go",
			Old:     "	if len(zones) < t.Zones() {\n		return nil, fmt.Errorf(\"tolerance",
			New:     "	if len(zones) < 2 {\n		return nil, fmt.Errorf(\"tolerance",
			Package: unit, Run: "^TestNothingIsHalfDone$", Assertion: "fewer-than-three",
		},
		{
			Name: "two-zones-in-the-log", Promise: "haconfig", File: "fsm/kube_zones.go",
			Old:     "n < t.Zones() || n > MaxZones",
			New:     "n < 1 || n > MaxZones",
			Package: log, Run: "^TestChoicesThatAreNone$", Assertion: "of two zones to survive one: accepted",
		},
		{
			Name: "foreign-annotation-overwritten", Promise: "haconfig", File: "haconfig/namespaces.go",
			Old:     "		case there && !ours && !wish.any:\n",
			New:     "		case there && !ours && !wish.any && false:\n",
			Package: unit, Run: "^TestNothingIsHalfDone$", Assertion: "foreign-overwritten",
		},
		{
			Name: "second-budget-for-a-pod", Promise: "haconfig", File: "haconfig/budgets.go",
			Old:     "return !ours(b) && selects(b, g.labels)",
			New:     "return false && selects(b, g.labels)",
			Package: unit, Run: "^TestBudgets$", Assertion: "foreign-budget",
		},
		{
			Name: "foreign-budget-overwritten", Promise: "haconfig", File: "haconfig/budgets.go",
			Old:     "		case !ours(has):\n",
			New:     "		case !ours(has) && has.Namespace == \"\":\n",
			Package: unit, Run: "^TestForeignBudgetIsNeverWritten$", Assertion: `taken-name: <nil> after ["put trivet-deployment-web"]`,
		},
		{
			Name: "budgets-overlap", Promise: "haconfig", File: "haconfig/budgets.go",
			Old:     "other.uid != g.uid && g.matches",
			New:     "other.uid == g.uid && !g.matches",
			Package: unit, Run: "^TestOverlappingComponents$", Assertion: "at first",
		},
		{
			Name: "removal-deletes-the-registration-of-living-peers", Promise: "haconfig", File: "cli/kube/haconfig_uninstall.go",
			Old:     "(r.Live || r.Gossip == \"alive\")",
			New:     "r.Live",
			Package: "./cli", Run: "^TestHAConfigUninstall$", Assertion: "haconfig-uninstall: the registration is",
		},
		{
			Name: "a-taken-budget-name-is-not-told", Promise: "haconfig", File: "haconfig/budgets.go",
			Old:     "write, log), taken)\n",
			New:     "write, log), errors.Unwrap(taken))\n",
			Package: "./haconfig", Run: "^TestForeignBudgetIsNeverWritten$", Assertion: "taken-name: <nil>",
		},
	}
}
