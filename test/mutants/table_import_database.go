package main

// takeoverMutants break what taking over the original's database promises: that
// nothing is overwritten, written too early, or told.
func takeoverMutants() []Mutant {
	const script = "^TestScripts$/^importdb$"
	return []Mutant{
		{
			Name:      "takeover-replaces-what-is-newer",
			Promise:   "import",
			File:      "fsm/node_import.go",
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
			Old:       "t.pass(ctx, true)",
			New:       "t.pass(ctx, false)",
			Package:   "./cli",
			Run:       script,
			Assertion: "unexpected match for `00000000-0000-4000-8000-000000000001`",
		},
		{
			Name:      "takeover-of-what-runs",
			Promise:   "import",
			File:      "cli/data/import_run.go",
			Old:       `(r.State == "finished" || r.State == "error") && r.FinishedAt != nil`,
			New:       `r.State != ""`,
			Package:   "./cli",
			Run:       script,
			Assertion: "has not ended",
		},
		{
			Name:      "takeover-of-half-a-file",
			Promise:   "import",
			File:      "cli/data/import_file.go",
			Old:       "if rules != e.Rules || records != e.Records {",
			New:       "if rules > e.Rules || records > e.Records {",
			Package:   "./cli",
			Run:       script,
			Assertion: "exit 0, want 1",
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
