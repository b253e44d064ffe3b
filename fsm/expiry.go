package fsm

// expire ends everything whose deadline is not after cluster time.
func (t *txn) expire() {
	for class, id := range t.Over() {
		for i := range endings {
			if endings[i].Class == class {
				endings[i].End(t, id)
			}
		}
	}
	t.forget()
}
