package main

// takeoverMutants break what taking over the original's database promises: that
// nothing is overwritten, written too early, or told.
func takeoverMutants() []Mutant {
	const script = "^TestScripts$/^importdb$"
	return []Mutant{
		{
			Name:      "takeover-replaces-what-is-newer",
			Promise:   "import",
			File:      "fsm/import.go",
			Old:       "case known && !c.tells(rec):",
			New:       "case known && !c.tells(rec) && rec.State == NodeAbsent:",
			Package:   "./fsm",
			Run:       "^TestImportReplacesNothing$",
			Assertion: "import record: ok (), want conflict",
		},
		{
			Name:      "takeover-writes-before-all-is-checked",
			Promise:   "import",
			File:      "cli/data/import_run.go",
			Old:       "t.pass(ctx, rules, total, true)",
			New:       "t.pass(ctx, rules, total, false)",
			Package:   "./cli",
			Run:       script,
			Assertion: "unexpected match for `00000000-0000-4000-8000-000000000001`",
		},
		{
			Name:      "takeover-of-what-runs",
			Promise:   "import",
			File:      "cli/data/import_run.go",
			Old:       `(n.State == "finished" || n.State == "error") && !n.Finished.IsZero()`,
			New:       `n.State != ""`,
			Package:   "./cli",
			Run:       script,
			Assertion: "has not ended",
		},
		{
			Name:      "takeover-quotes-a-driver",
			Promise:   "import",
			File:      "inspector/inspectordb/connect.go",
			Old:       `errors.New("the URL of the database is not understood by its driver, or a file that its options name cannot be read")`,
			New:       "err",
			Package:   "./inspector/inspectordb",
			Run:       "^TestNoErrorTellsThePassword$",
			Assertion: "s3cr3t",
		},
	}
}
