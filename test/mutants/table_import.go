package main

// importMutants break what moving in from the original promises: that nothing
// is opened, and no secret said, on the way.
func importMutants() []Mutant {
	const dir = "config/inspectorconf/"
	return []Mutant{
		{
			Name:      "import-opens-the-api",
			Promise:   "import",
			File:      dir + "compose.go",
			Old:       `c.set("api.auth_strategy", "http_basic", strategy)`,
			New:       `c.set("api.auth_strategy", "noauth", strategy)`,
			Package:   "./config/inspectorconf",
			Run:       "^TestNeverOpened$",
			Assertion: "is open",
		},
		{
			Name:      "import-quotes-a-password",
			Promise:   "import",
			File:      dir + "convert.go",
			Old:       "f != nil && isSecret(n)",
			New:       "f != nil && n == (name{})",
			Package:   "./config/inspectorconf",
			Run:       "^TestPasswordIsNotSaid$",
			Assertion: "$sesame refers to no option",
		},
	}
}
