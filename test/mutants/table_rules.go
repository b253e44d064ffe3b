package main

// The package whose tests judge the rules.
const rulesUnit = "./inspector/rules"

// ruleMutants break what is promised of introspection rules (docs/contract.md#rules).
func ruleMutants() []Mutant {
	return []Mutant{
		{
			Name:      "scope-ignored",
			Promise:   "contract",
			File:      "inspector/rules/engine.go",
			Old:       `		if rule.scope != "" && rule.scope != r.task.Node().Properties["inspection_scope"] {`,
			New:       `		if rule.scope != "" && rule.scope == r.task.Node().UUID {`,
			Package:   rulesUnit,
			Run:       "^TestScope$",
			Assertion: "were carried out, want",
		},
		{
			Name:      "rule-sees-another",
			Promise:   "contract",
			File:      "inspector/rules/engine.go",
			Old:       "			chosen = append(chosen, rule)\n",
			New:       "			for _, a := range rule.actions {\n				if err := a.do(ctx, r); err != nil {\n					return nil, err\n				}\n			}\n",
			Package:   rulesUnit,
			Run:       "^TestRulesDoNotSeeEachOther$",
			Assertion: "a rule saw what another one wrote",
		},
		{
			Name:      "rules-of-yesterday",
			Promise:   "contract",
			File:      "inspector/rules/engine.go",
			Old:       "version != e.version {",
			New:       "version != e.version && len(e.compiled) == 0 {",
			Package:   rulesUnit,
			Run:       "^TestEngineFollowsTheRules$",
			Assertion: "a new rule is not carried out",
		},
		{
			Name:      "stored-rule-passed-over",
			Promise:   "contract",
			File:      "inspector/rules/engine.go",
			Old:       "			return nil, rule.unusable\n",
			New:       "			continue\n",
			Package:   rulesUnit,
			Run:       "^TestAStoredRuleThatCannotBeUsed$",
			Assertion: "a stored rule that cannot be used",
		},
		{
			Name:      "format-specification-ignored",
			Promise:   "contract",
			File:      "inspector/rules/format.go",
			Old:       "	return p, rest, ok && p.pad(padding)\n",
			New:       "	p.pad(padding)\n	return p, rest, ok\n",
			Package:   rulesUnit,
			Run:       "^TestWidths$",
			Assertion: "is taken",
		},
	}
}
