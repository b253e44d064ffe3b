package accept

// For tests outside of this package.
const (
	AnswerLimit = answerLimit
	MaxListed   = maxListed
)

// For tests outside of this package.
var (
	TakeLogs = takeLogs
)

// Listed counts the documents for which lists are read or kept.
func (s *Service) Listed() int {
	s.Lists.mu.Lock()
	defer s.Lists.mu.Unlock()
	return len(s.Lists.open)
}
