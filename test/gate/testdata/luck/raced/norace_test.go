//go:build !race

package raced

const raced = false
