package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// farthest is how many commits back a change begins where the history does not say what
// landed last.
const farthest = 20

// landed returns the commit that the change is compared with: the one given; else what
// HEAD has in common with main as it was fetched, then with main of this clone; else,
// on main itself, the oldest of the last commits.
func landed(ctx context.Context, base string) (string, error) {
	head, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	if base != "" {
		return git(ctx, "rev-parse", "--verify", base+"^{commit}")
	}
	for _, branch := range []string{"origin/main", "main"} {
		if common, err := git(ctx, "merge-base", "HEAD", branch); err == nil && common != head {
			return common, nil
		}
	}
	for n := farthest; n > 0; n /= 2 {
		if commit, err := git(ctx, "rev-parse", "--quiet", "--verify", fmt.Sprintf("HEAD~%d^{commit}", n)); err == nil {
			return commit, nil
		}
	}
	return head, nil
}

// changedFiles lists the files, relative to the root, that differ between what landed
// and the working tree, files that git does not know yet included.
func changedFiles(ctx context.Context, base string) ([]string, error) {
	commit, err := landed(ctx, base)
	if err != nil {
		return nil, err
	}
	differ, err := git(ctx, "diff", "--name-only", "--no-renames", commit)
	if err != nil {
		return nil, err
	}
	untracked, err := git(ctx, "ls-files", "--others", "--exclude-standard")
	if err != nil {
		return nil, err
	}
	return strings.Fields(differ + "\n" + untracked), nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
