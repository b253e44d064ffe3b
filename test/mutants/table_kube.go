package main

// kubeMutants write what is not as it was read, or take a part for the whole.
func kubeMutants() []Mutant {
	const unit = "./failover/kube"
	return []Mutant{
		{
			Name: "pod-deleted-whoever-it-is", Promise: "6", File: "failover/kube/write.go",
			Old:     "Preconditions: &metav1.Preconditions{UID: &uid}}\n",
			New:     "Preconditions: &metav1.Preconditions{}}\n\t_ = uid\n",
			Package: unit, Run: "^TestDeletePod$", Assertion: "whatever it is",
		},
		{
			Name: "pod-deleted-however-it-is", Promise: "6", File: "failover/kube/write.go",
			Old:     "	if p.ResourceVersion != \"\" {\n",
			New:     "	if p.ResourceVersion == \"\" {\n",
			Package: unit, Run: "^TestDeletePod$", Assertion: "whatever it is",
		},
		{
			Name: "lower-token-written", Promise: "6", File: "failover/kube/write.go",
			Old:     "		if greatest > change.Token {\n",
			New:     "		if greatest > change.Token+1 {\n",
			Package: unit, Run: "^TestPatchComparesTokens$", Assertion: "20 after 21",
		},
		{
			Name: "node-written-meanwhile", Promise: "6", File: "failover/kube/write.go",
			Old:     "	case n.ResourceVersion != as.ResourceVersion:\n",
			New:     "	case n.ResourceVersion == \"\":\n",
			Package: unit, Run: "^TestMark$", Assertion: "written meanwhile",
		},
		{
			Name: "patch-holds-for-any-version", Promise: "6", File: "failover/kube/write.go",
			Old:     "		\"uid\": n.UID, \"resourceVersion\": n.ResourceVersion,\n",
			New:     "		\"uid\": n.UID,\n",
			Package: unit, Run: "^TestPatchKeepsWhatOthersWrote$", Assertion: "it holds for another, too",
		},
		{
			Name: "taint-of-others-removed", Promise: "6", File: "failover/kube/write.go",
			Old:     "		if !slices.Contains(change.Remove, taintOf(t)) {\n",
			New:     "		if !slices.ContainsFunc(change.Remove, func(r failover.Taint) bool { return r.Key == t.Key }) {\n",
			Package: unit, Run: "^TestPatchKeepsWhatOthersWrote$", Assertion: "theirs is not removed",
		},
		{
			Name: "answers-while-blind", Promise: "6", File: "failover/kube/watch.go",
			Old:     "	return c.sight.err()\n",
			New:     "	return nil\n",
			Package: unit, Run: "^TestAnswersWhileBlind$", Assertion: "it answers and is not seen",
		},
		{
			Name: "list-without-end", Promise: "6", File: "failover/kube/read.go",
			Old:     "		if count += page.see(); count > l.most {\n",
			New:     "		if count += page.see(); count < 0 {\n",
			Package: unit, Run: "^TestPods$", Assertion: "without an end",
		},
	}
}
