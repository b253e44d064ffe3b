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
	const noLeader = 5
	return p.asked(ctx, b, "failure.status_without_quorum", noLeader)
}

// asked adds a row for how long 'trivet status' takes, once it exits with want: what a
// kill leaves behind, in the report of a peer or in that of the others, takes a while.
func (p *process) asked(ctx context.Context, b *Bench, row string, want int) error {
	var said []byte
	limited, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	err := until(limited, fmt.Sprintf("an exit of 'trivet status' with %d", want), func() bool {
		status, err := p.run(ctx, "status")
		said = status.said
		return err == nil && status.code == want
	})
	if err != nil {
		return fmt.Errorf("%w; it says\n%s", err, said)
	}
	var asked, started Sample
	for range statusTrials {
		status, err := p.run(ctx, "status")
		if err == nil && status.code != want {
			err = fmt.Errorf("'trivet status' exited with %d:\n%s", status.code, status.said)
		}
		if err != nil {
			return err
		}
		version, err := p.run(ctx, "version")
		if err != nil {
			return err
		}
		asked, started = append(asked, status.took), append(started, version.took)
	}
	b.Report.Add(row, asked.Max().Seconds(), "s", AtMost(statusGoal),
		fmt.Sprintf("%v; 'trivet version' %v", asked, started))
	return nil
}

// ran is how a command ended.
type ran struct {
	code int
	took time.Duration
	said []byte // to its standard output
}

// run runs a command of the peer's host.
func (p *process) run(ctx context.Context, word string) (ran, error) {
	cmd := exec.CommandContext(ctx, p.binary, word, "--socket", p.socket)
	cmd.Env = p.env
	began := time.Now()
	said, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return ran{}, fmt.Errorf("run %s: %w", word, err)
	}
	return ran{cmd.ProcessState.ExitCode(), time.Since(began), said}, nil
}
