package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sumsFile holds the checksums of the other files in its directory, for
// 'sha256sum -c'.
const sumsFile = "SHA256SUMS"

// writeCompressed compresses without a name or a time, which would make two
// builds differ.
func writeCompressed(path string, text []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	_, err = z.Write(text)
	if err := errors.Join(err, z.Close()); err != nil {
		return fmt.Errorf("compress %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return nil
}

// writeSums writes the checksums of all files in a directory.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	var lines strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, e.Name())
	}
	if err := os.WriteFile(filepath.Join(dir, sumsFile), []byte(lines.String()), 0o644); err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	return nil
}

// sumOf is the SHA-256 of a file, in hexadecimal.
func sumOf(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("checksum: %w", err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text)), nil
}
