package accept

// For tests outside of this package.
const (
	AnswerLimit = answerLimit
)

// For tests outside of this package.
var (
	TakeLogs = takeLogs
)
