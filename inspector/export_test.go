package inspector

// Waiting returns how many wait.
func (n *Notifier) Waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}
