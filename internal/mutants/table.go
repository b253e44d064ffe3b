package main

import "slices"

// table lists every mutant. A row belongs to the promise it breaks (design
// §2) and names the assertion that must notice; see CONTRIBUTING.md for how
// to add one. A test of this package checks that every row still fits the
// source, so a row is renewed in the change that moves its text.
func table() []Mutant {
	return slices.Concat(
		houseMutants(),
		logMutants(),
		proofMutants(),
		restoreMutants(),
		snapshotMutants(),
		daysMutants(),
		raftMutants(),
		termMutants(),
		gateMutants(),
		fileMutants(),
		relayMutants(),
		inspectorMutants(),
		apiMutants(),
		importMutants(),
		takeoverMutants(),
		doctorMutants(),
		ruleMutants(),
		successorMutants(),
		failoverMutants(),
		judgeMutants(),
		kubeMutants(),
		remedyMutants(),
		failoverSimMutants(),
		fenceMutants(),
		kubeControlMutants(),
		leaseMutants(),
		leaseRequestMutants(),
		electorMutants(),
		leaseClientMutants(),
		leaseSimMutants(),
		configMutants(),
		upgradeMutants(),
		haconfigMutants(),
		keysMutants(),
		memberMutants(),
		watchMutants(),
		installMutants(),
		accessMutants(),
		floodMutants(),
		httpMutants(),
		contactMutants(),
		ramdiskMutants(),
		formerNodeMutants(),
		safeguardMutants(),
		offMutants(),
		clockMutants(),
		renewalMutants(),
		rollbackMutants(),
		podMutants(),
		suspicionMutants(),
		deviceMutants(),
		mirrorMutants(),
	)
}
