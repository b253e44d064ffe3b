package main

// watchMutants take away what only a figure tells.
func watchMutants() []Mutant {
	return []Mutant{
		{
			Name: "thrown-back-and-not-counted", Promise: "4", File: "api/sources.go",
			Old:     "			s.told()\n",
			New:     "",
			Package: "./api", Run: "^TestThrottledCallbacksAreCounted$", Assertion: "were told to come again",
		},
	}
}
