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
	s.finder.lists.mu.Lock()
	defer s.finder.lists.mu.Unlock()
	return len(s.finder.lists.open)
}
