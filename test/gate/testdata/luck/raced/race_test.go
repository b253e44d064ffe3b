//go:build race

package raced

const raced = true
