// Package inspecttest is one peer with all that it introspects with, in a bubble: a log in
// memory, an Ironic that keeps a diary, and steps that tests of inspector's packages share.
package inspecttest

import (
	"github.com/trivet-ha/trivet/inspector"
	"github.com/trivet-ha/trivet/inspector/accept"
	"github.com/trivet-ha/trivet/inspector/work"
)

// Service is what a Rig hands out, for tests of packages that may not import accept.
type Service = accept.Service

// Pool likewise is of package work.
type Pool = work.Pool

// Refusal likewise is of package inspector.
type Refusal = inspector.Refusal
