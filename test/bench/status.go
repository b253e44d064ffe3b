package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// statusTrials is how often the command is run with a quorum, and without.
const statusTrials = 15

// statusGoal is what an operator waits for at most, in seconds.
const statusGoal = 0.3

// statuses takes the time of 'trivet status' on a peer of three, and then on one
// whose two others are dead, and in turns with each that of 'trivet version',
// which is what it costs to start the program.
func statuses(ctx context.Context, b *Bench, cluster fleet) error {
	if err := cluster.whole(ctx); err != nil { // the last one that was stopped starts still
		return err
	}
	p, others, err := cluster.roles(ctx)
	if err != nil {
		return err
	}
	if err := p.asked(ctx, b, "failure.status", 0); err != nil {
		return err
	}
	for _, other := range others {
		if _, err := other.signal(syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %s: %w", other.name, err)
		}
		if err := other.reap(); err != nil {
			return err
		}
	}
	const noLeader = 5 // the exit code
	for end := time.Now().Add(exitLimit); ; {
		code, _, err := p.run(ctx, "status")
		if err == nil && code == noLeader {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("without a quorum 'trivet status' exits with %d (%w)", code, err)
		}
	}
	return p.asked(ctx, b, "failure.status_without_quorum", noLeader)
}

// asked adds a row for how long 'trivet status' takes.
func (p *process) asked(ctx context.Context, b *Bench, row string, want int) error {
	var asked, started Sample
	for range statusTrials {
		code, took, err := p.run(ctx, "status")
		if err == nil && code != want {
			err = fmt.Errorf("'trivet status' exited with %d", code)
		}
		if err != nil {
			return err
		}
		asked = append(asked, took)
		if _, took, err = p.run(ctx, "version"); err != nil {
			return err
		}
		started = append(started, took)
	}
	b.Report.Add(row, asked.Max().Seconds(), "s", AtMost(statusGoal), fmt.Sprintf("%v; 'trivet version' %v", asked, started))
	return nil
}

// run runs a command of the peer's host and returns its exit code.
func (p *process) run(ctx context.Context, word string) (code int, took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, p.binary, word, "--socket", p.socket)
	cmd.Env = p.env
	began := time.Now()
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, 0, fmt.Errorf("run %s: %w", word, err)
	}
	return cmd.ProcessState.ExitCode(), time.Since(began), nil
}
