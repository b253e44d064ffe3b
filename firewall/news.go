package firewall

// Tell puts news into a channel that holds one: more before it is received are the
// same.
func Tell(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}
