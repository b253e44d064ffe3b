package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	contractNodes = 2000 // callbacks whose processor time is taken, as many again before to warm up
	burstNodes    = 200  // introspected at once
	burstRounds   = 5
	burstLimit    = time.Minute
)

func contractArea() Area {
	return Area{
		Name: "contract",
		About: fmt.Sprintf("three processes as in area api; default hooks; %d callbacks, and bursts of %d nodes",
			contractNodes, burstNodes),
		Measure: measureContract,
	}
}

func measureContract(ctx context.Context, b *Bench) (err error) {
	s, err := newAPISite(ctx, b, "contract", 2*contractNodes+burstRounds*burstNodes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return errors.Join(s.callbackCPU(ctx), s.bursts(ctx), rulesCPU(ctx, b), switchFacts(ctx, b))
}

// rulesCPU takes the processor time of 100 rules on a document of 30 KB, by the
// benchmark of inspector/rules.
func rulesCPU(ctx context.Context, b *Bench) error {
	all, busy, err := (&gateSite{bench: b}).benchmarks(ctx, "./inspector/rules", "^BenchmarkRules$", "100x")
	if err != nil {
		b.Report.Skip("contract.rules_100_ms", "ms", AtMost(5), err.Error())
		return nil
	}
	each := all["Rules cpu-ms/op"]
	if len(each) == 0 {
		return errors.New("go test ./inspector/rules has no result of BenchmarkRules")
	}
	b.Report.Add("contract.rules_100_ms", median(each), "ms", AtMost(5),
		fmt.Sprintf("processor time, with a call of an Ironic that costs nothing for each rule: %.2f; %s", each, busy))
	return nil
}

// switchFacts takes how fast TLVs of LLDP are read, by the benchmark of
// inspector/lldp.
func switchFacts(ctx context.Context, b *Bench) error {
	all, busy, err := (&gateSite{bench: b}).benchmarks(ctx, "./inspector/lldp", "^BenchmarkAdd$", "20000x")
	if err != nil {
		b.Report.Skip("contract.lldp_million_tlv_per_s", "M/s", AtLeast(1), err.Error())
		return nil
	}
	rates := all["Add TLV/s"]
	if len(rates) == 0 {
		return errors.New("go test ./inspector/lldp has no result of BenchmarkAdd")
	}
	b.Report.Add("contract.lldp_million_tlv_per_s", median(rates)/1e6, "M/s", AtLeast(1),
		fmt.Sprintf("one switch's 15, and its facts written: %.0f a second; %s", rates, busy))
	return nil
}

// callbackCPU takes the processor time of callbacks, of the three peers without
// the load and the Ironic in memory. Peers that have just started work with a
// heap that grows, which is not what they do for days.
func (s *apiSite) callbackCPU(ctx context.Context) error {
	const name = "contract.callback_cpu_ms"
	var used usage
	for round := range 2 {
		first := round * contractNodes
		if err := s.introspect(ctx, first, contractNodes, s.start); err != nil {
			return fmt.Errorf("%s: start: %w", name, err)
		}
		if err := s.await(ctx, "waiting", func() bool { return true }); err != nil {
			return fmt.Errorf("%s: start: %w", name, err)
		}
		before, began := s.usage(ctx), time.Now()
		if err := s.introspect(ctx, first, contractNodes, s.callback); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := s.await(
			ctx, "finished", func() bool { return s.rack.off.Load() >= int64(first+contractNodes) }); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		used = s.usage(ctx).since(before)
		s.bench.Say("%s: %s", name, used.each(contractNodes, began))
	}
	each := used.peers.Seconds() * 1000 / contractNodes
	s.bench.Report.Add(name, each, "ms", AtMost(3), fmt.Sprintf("%d callbacks of %.1f KB; log entries each: %.1f",
		contractNodes, float64(s.rack.bytes)/float64(len(s.rack.documents))/1000, float64(used.entries)/contractNodes))
	return nil
}

// introspect does something with some nodes, each on one of the connections.
func (s *apiSite) introspect(ctx context.Context, first, count int,
	do func(context.Context, *webConn, int) error) error {
	jobs := make(chan int, count)
	for n := range count {
		jobs <- first + n
	}
	close(jobs)
	return s.crowd(ctx, func(ctx context.Context, c *webConn) error {
		for n := range jobs {
			if err := do(ctx, c, n); err != nil {
				return fmt.Errorf("node %d: %w: %s", n, err, c.answer)
			}
		}
		return nil
	})
}

func (s *apiSite) start(ctx context.Context, c *webConn, n int) error {
	_, err := insist(ctx, func() (status int, err error) {
		status, _, err = c.do(http.MethodPost, "/v1/introspection/"+s.rack.machines[n].UUID, nil)
		return status, err
	}, http.StatusAccepted)
	return err
}

func (s *apiSite) callback(ctx context.Context, c *webConn, n int) error {
	_, err := insist(ctx, func() (status int, err error) {
		status, _, err = c.do(http.MethodPost, "/v1/continue", s.rack.documents[n])
		return status, err
	}, http.StatusOK)
	return err
}

// bursts introspects some nodes at once, again and again: each calls back as
// soon as it is switched on, with the throttle off.
func (s *apiSite) bursts(ctx context.Context) error {
	const name = "contract.burst_200_s"
	var times Sample
	for round := range burstRounds {
		took, err := s.burst(ctx, 2*contractNodes+round*burstNodes)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		times = append(times, took)
	}
	s.bench.Report.Add(name, times.P50().Seconds(), "s", AtMost(5),
		fmt.Sprintf("%d nodes from the first POST until all are switched off and finished: %v", burstNodes, times))
	return nil
}

func (s *apiSite) burst(ctx context.Context, first int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, burstLimit)
	defer cancel()
	began := time.Now()
	var machines sync.WaitGroup
	errs := make([]error, burstNodes)
	for n := range burstNodes {
		machines.Go(func() { errs[n] = s.whole(ctx, first+n) })
	}
	machines.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	last := int64(first + burstNodes)
	if err := s.await(ctx, "finished", func() bool { return s.rack.off.Load() >= last }); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

// whole is one node's introspection: an operator starts it, its ramdisk calls
// back once it is on.
func (s *apiSite) whole(ctx context.Context, n int) error {
	c, err := dialWeb(s.fleet[n%len(s.fleet)].api)
	if err != nil {
		return err
	}
	defer c.close()
	if err := s.start(ctx, c, n); err != nil {
		return fmt.Errorf("node %d: start: %w: %s", n, err, c.answer)
	}
	if err := s.rack.awaitOn(ctx, n); err != nil {
		return fmt.Errorf("node %d is not switched on: %w", n, err)
	}
	if err := s.callback(ctx, c, n); err != nil {
		return fmt.Errorf("node %d: %w: %s", n, err, c.answer)
	}
	return nil
}
