package main

// configMutants apply half of a configuration, or tell more of it than they may.
func configMutants() []Mutant {
	return []Mutant{
		{
			Name: "reload-before-all-is-made", Promise: "config", File: "app/reload.go",
			Old:     "		parts = append(parts, put)\n",
			New:     "		put()\n",
			Package: "./app", Run: "^TestReloadIsWhole$", Assertion: "half-applied",
		},
		{
			Name: "mixture-worse-than-both", Promise: "config", File: "config/renew.go",
			Old:     "	if r.Together = r.Config.unlike(c, next); len(r.Together) > 0 {\n",
			New:     "	if r.Together = r.Config.unlike(c, next); len(r.Together) > 1000 {\n",
			Package: "./config", Run: "^TestNoMixtureIsWorse$", Assertion: "worse-than-both",
		},
		{
			Name: "mark-without-the-secret", Promise: "config", File: "config/mark.go",
			Old:     "sha256.Sum256(append([]byte(markLabel), secret...))",
			New:     "sha256.Sum256(append([]byte(markLabel), secret[:0]...))",
			Package: "./config", Run: "^TestMarks$", Assertion: "mark-without-the-secret",
		},
		{
			Name: "policy-of-the-start", Promise: "config", File: "firewall/lists.go",
			Old:     "		l.policy = terms.Policy\n",
			New:     "",
			Package: "./firewall", Run: "^TestTermsOfTheListsAreReloaded$", Assertion: "renewed-policy",
		},
		{
			Name: "guard-rails-of-the-start", Promise: "config", File: "failover/controller.go",
			Old:     "	c.settings.Store(&s)\n",
			New:     "	_ = s\n",
			Package: "./failover", Run: "^TestGuardRailsAreReloaded$", Assertion: "renewed-guard",
		},
	}
}
