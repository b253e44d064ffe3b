package accept

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/trivet-ha/trivet/fsm/blobs"
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/identify"
	"github.com/trivet-ha/trivet/internal/pace"
)

// How long Ironic's lists are read for a document, and kept for it.
const (
	// listLimit bounds a reading. The attempts of a ramdisk take as long together (docs/design.md#budgets).
	listLimit = 2 * time.Minute
	// keepLists is how long they are there for the next attempt, which pauses and waits in line first.
	keepLists = time.Minute
	// quickLists are not kept: the next attempt has the time to read them as they are then.
	quickLists = 5 * time.Second
	// maxListed bounds the documents, which any client can send. For one more the lists are read while its request lasts.
	maxListed = 512
)

// errListsLate is no word on Ironic, which may be there and have much to list.
var errListsLate = inspector.Refuse(http.StatusServiceUnavailable,
	"Ironic's lists of ports and nodes were not read in time; repeat the callback")

// ListReader reads Ironic's lists for documents, and goes on when the request ends that brought one: the ramdisk's next
// attempt finds what was read since the first. It may be used concurrently.
type ListReader struct {
	search identify.Search
	life   context.Context // of what is read
	stop   context.CancelFunc

	mu      sync.Mutex
	open    map[blobs.Hash]*nodeLists // guarded by mu
	reading sync.WaitGroup            // one of each document; none is added after stop
}

// nodeLists are what is read for one document.
type nodeLists struct {
	ports *pending[identify.Ports] // nil: it names no port
	bmcs  *pending[identify.BMCs]  // nil: it names no BMC
	end   context.CancelFunc       // of the reading, and of the time for which they are kept
}

// pending is one list.
type pending[T any] struct {
	done  chan struct{} // closed when the rest is set
	value T
	err   error
}

func newListReader(search identify.Search) *ListReader {
	life, stop := context.WithCancel(context.Background())
	return &ListReader{search: search, life: life, stop: stop, open: make(map[blobs.Hash]*nodeLists)}
}

// Run lets lists be read on until ctx ends, and returns when none is. It is called once.
func (l *ListReader) Run(ctx context.Context) {
	<-ctx.Done()
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.reading.Wait()
}

// of returns the search for the machine of a document: its lists are as of the document's first attempt or newer. over
// is called when the attempt of ctx is answered; the lists are kept for another one if ctx has ended before.
func (l *ListReader) of(ctx context.Context, m identify.Machine) (s identify.Search, over func()) {
	s = l.search
	lists := l.join(m)
	if lists == nil {
		return s, func() {}
	}
	if lists.ports != nil {
		s.Ports = lists.ports.get
	}
	if lists.bmcs != nil {
		s.BMCs = lists.bmcs.get
	}
	return s, func() {
		if ctx.Err() == nil {
			l.drop(m.Document, lists)
		}
	}
}

// join returns the lists that are read for a document, nil if they cannot be.
func (l *ListReader) join(m identify.Machine) *nodeLists {
	l.mu.Lock()
	defer l.mu.Unlock()
	lists := l.open[m.Document]
	if lists != nil || l.life.Err() != nil || len(l.open) >= maxListed {
		return lists
	}
	ctx, end := context.WithCancel(l.life)
	lists = &nodeLists{end: end}
	if len(identify.PortMACs(m.MACs)) > 0 {
		lists.ports = &pending[identify.Ports]{done: make(chan struct{})}
	}
	if len(m.BMC) > 0 {
		lists.bmcs = &pending[identify.BMCs]{done: make(chan struct{})}
	}
	l.open[m.Document] = lists
	l.reading.Go(func() {
		defer l.drop(m.Document, lists)
		l.read(ctx, lists)
	})
	return lists
}

// drop lets the next attempt of a document read the lists again.
func (l *ListReader) drop(document blobs.Hash, lists *nodeLists) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lists.end()
	if l.open[document] == lists {
		delete(l.open, document)
	}
}

// read reads the lists, and returns when they need not be kept. The ports come first: of a node that is made meanwhile
// the BMC tells its machine from others with the same port.
func (l *ListReader) read(ctx context.Context, lists *nodeLists) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, listLimit)
	defer cancel()
	whole := lists.ports.read(limited, l.search.Ports) && lists.bmcs.read(limited, l.search.BMCs)
	if whole && time.Since(began) >= quickLists {
		pace.Wait(ctx, keepLists)
	}
}

// read reads a list, if it is asked for, and reports whether that did not fail.
func (p *pending[T]) read(ctx context.Context, from func(context.Context) (T, error)) bool {
	if p == nil {
		return true
	}
	defer close(p.done)
	if p.value, p.err = from(ctx); p.err != nil && ctx.Err() != nil {
		p.err = errListsLate
	}
	return p.err == nil
}

func (p *pending[T]) get(ctx context.Context) (value T, err error) {
	select {
	case <-p.done:
		return p.value, p.err
	case <-ctx.Done():
		return value, errListsLate
	}
}
