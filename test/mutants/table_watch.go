package main

// watchMutants take away what only a figure or the log tells.
func watchMutants() []Mutant {
	return []Mutant{
		{
			Name: "thrown-back-and-not-counted", Promise: "4", File: "api/sources.go",
			Old:     "		r.refused()\n",
			New:     "",
			Package: "./api", Run: "^TestThrottledCallbacksAreCounted$", Assertion: "were told to come again",
		},
		{
			Name: "repeated-lines-pass", Promise: "logs", File: "internal/logs/limit.go",
			Old:     "	if now.Before(c.next) {\n",
			New:     "	if now.Before(c.seen) {\n",
			Package: "./internal/logs", Run: "^TestLimitPassesTheFirstLineAndOneEachTenMinutes$", Assertion: "repeat-is-bounded",
		},
		{
			Name: "raft-logs-without-bounds", Promise: "logs", File: "raftstore/store.go",
			Old:     "logs.Pace{Every: logs.Every, Most: 24 * time.Hour}",
			New:     "logs.Pace{Every: time.Nanosecond, Most: time.Nanosecond}",
			Package: "./test/simtest", Run: "^TestLinesOfAnAbsence$/^follower$", Assertion: "lines-are-bounded",
		},
		{
			Name: "lost-peer-is-not-named", Promise: "logs", File: "raftstore/logbridge/logbridge.go",
			Old:     "		return named.Replace(string(v))\n	case string:",
			New:     "		return string(v)\n	case string:",
			Package: "./raftstore/logbridge", Run: "^TestKeysAreOursAndPeersHaveNames$", Assertion: "peer-has-a-name",
		},
		{
			Name: "warnings-without-priority", Promise: "logs", File: "cli/daemon/logging.go",
			Old:     "logs.Priority(r.Level)",
			New:     "logs.Priority(slog.LevelInfo)",
			Package: "./cli/daemon", Run: "^TestJournalGetsPrioritiesAndNoSecondTime$", Assertion: "journal-priorities",
		},
		{
			Name: "health-without-request-id", Promise: "logs", File: "api/health.go",
			Old:     "	return Identified(e)\n",
			New:     "	return e\n",
			Package: "./api", Run: "^TestEveryAnswerNamesItsRequest$", Assertion: "request-is-named",
		},
	}
}
