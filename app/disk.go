package app

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trivet-ha/trivet/api"
	"github.com/trivet-ha/trivet/raftstore"
	"github.com/trivet-ha/trivet/raftstore/ballast"
	"github.com/trivet-ha/trivet/raftstore/host"
)

// openLog opens the peer's log behind a ballast. To open it may need the space
// that the ballast holds.
func (p *Peer) openLog() (raftstore.Storage, error) {
	dir := p.opts.Dir
	p.ballast = ballast.New(dir.PeerDir(), p.opts.Logger)
	st, err := host.Open(dir.RaftDir())
	if ballast.Full(err) {
		p.ballast.Drop()
		st, err = host.Open(dir.RaftDir())
	}
	if err != nil {
		return raftstore.Storage{}, err
	}
	return p.ballast.Guard(st), nil
}

// diskWarnings are what is wrong with the disk of the data directory.
func diskWarnings(s ballast.State) []api.Warning {
	free := fmt.Sprintf("%s free of %s", mebibytes(s.Free), mebibytes(s.Size))
	const remedy = "make room on the disk of the data directory (status names it); this peer goes on by itself then"
	switch {
	case s.Err != nil:
		return nil // doctor tells it; nothing is known to be wrong
	case s.Dropped:
		return []api.Warning{{Code: "disk_full", Remedy: remedy,
			Text: fmt.Sprintf("the disk of the data directory is full, %s: this peer takes no entries of the log and cannot lead", free)}}
	case s.Free < s.Floor():
		return []api.Warning{{Code: "disk_full", Remedy: remedy,
			Text: fmt.Sprintf("the disk of the data directory is all but full, %s: this peer hands leadership on", free)}}
	case s.Free < s.Low():
		return []api.Warning{{Code: "disk_low", Remedy: remedy, Text: fmt.Sprintf("the disk of the data directory fills, %s", free)}}
	}
	return nil
}

func mebibytes(n uint64) string { return fmt.Sprintf("%d MiB", n>>20) }

// diskMetrics adds the figures of the data directory's disk.
func (p *Peer) diskMetrics(r *prometheus.Registry) {
	gauge := func(name, help string, value func(ballast.State) float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "trivet", Name: name, Help: help},
			func() float64 { return value(p.ballast.State()) }))
	}
	gauge("disk_free_bytes", "Free space on the disk of the data directory.", func(s ballast.State) float64 { return float64(s.Free) })
	gauge("disk_size_bytes", "Size of the disk of the data directory.", func(s ballast.State) float64 { return float64(s.Size) })
	gauge("disk_ballast_bytes", "Space held back for when that disk is full.", func(s ballast.State) float64 { return float64(s.Ballast) })
	gauge("disk_full", "1 while the log takes no entries because that disk is full.", func(s ballast.State) float64 { return boolValue(s.Dropped) })
}
