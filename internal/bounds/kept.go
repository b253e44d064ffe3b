package bounds

import "sync"

// Kept has what was read last of each of some files. One whose file system hangs holds up neither the others nor,
// for longer than FileLimit, who reads it. The zero Kept is ready for use, and may be used concurrently.
type Kept[T any] struct {
	mu    sync.Mutex
	files map[string]*keptFile[T] // by path; as many as a configuration names
}

type keptFile[T any] struct {
	looks Calls
	last  T
	known bool // it was read
}

// Read reads a file and returns what it holds; where that fails or hangs, what it held when it was read last.
// It is known unless there is no such time. The error says why it could not be read now.
func (k *Kept[T]) Read(path string, read func(path string) (T, error)) (last T, known bool, err error) {
	f := k.file(path)
	var failed error
	err = f.looks.Take(FileLimit, func() func() {
		var text T
		text, failed = read(path)
		if failed != nil {
			return nil
		}
		return func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			f.last, f.known = text, true
		}
	})
	if err == nil {
		err = failed
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return f.last, f.known, err
}

func (k *Kept[T]) file(path string) *keptFile[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil {
		k.files = make(map[string]*keptFile[T])
	}
	if k.files[path] == nil {
		k.files[path] = new(keptFile[T])
	}
	return k.files[path]
}
