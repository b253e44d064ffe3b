package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The layout of a .deb, which is an archive of ar: a magic line, then the members, each
// with a header of fixed columns and padded to an even length.
const (
	arMagic  = "!<arch>\n"
	arHeader = 60
	arName   = 16 // columns of the name, at the beginning of a header
	arSize   = 48 // where the size begins, 10 columns in decimal
	arEnd    = "`\n"
)

// repack compresses the files of a .deb, which nfpm left as they are: the encoder of
// xz that it has in Go makes them a third larger than xz does. Every dpkg that takes
// xz takes the filter for x86 too.
func (r *release) repack(ctx context.Context, path, arch string) error {
	deb, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("compress the package: %w", err)
	}
	head, files, err := cutFiles(deb)
	if err != nil {
		return fmt.Errorf("compress %s: %w", path, err)
	}
	packed, err := compressed(ctx, files, arch)
	if err != nil {
		return fmt.Errorf("compress %s: %w", path, err)
	}
	if err := os.WriteFile(path, withFiles(head, packed), 0o644); err != nil {
		return fmt.Errorf("compress the package: %w", err)
	}
	return nil
}

// cutFiles cuts a .deb before the body of its last member, data.tar.
func cutFiles(deb []byte) (head, files []byte, err error) {
	if !bytes.HasPrefix(deb, []byte(arMagic)) {
		return nil, nil, errors.New("no archive of ar")
	}
	for at := len(arMagic); at+arHeader <= len(deb); {
		header := string(deb[at : at+arHeader])
		at += arHeader
		size, err := strconv.Atoi(strings.TrimSpace(header[arSize : arHeader-len(arEnd)]))
		if err != nil || size < 0 || size > len(deb)-at {
			return nil, nil, fmt.Errorf("the header %q has no size of a member", header)
		}
		if strings.TrimRight(header[:arName], " /") == "data.tar" {
			return deb[:at], deb[at : at+size], nil
		}
		at += size + size%2
	}
	return nil, nil, errors.New("it has no data.tar: deb.compression in what nfpm reads must be none")
}

// withFiles is a .deb that was cut, with its files compressed.
func withFiles(head, packed []byte) []byte {
	out := bytes.Clone(head)
	header := out[len(out)-arHeader:]
	copy(header, fmt.Sprintf("%-*s", arName, "data.tar.xz"))
	copy(header[arSize:], fmt.Sprintf("%-10d%s", len(packed), arEnd))
	out = append(out, packed...)
	if len(packed)%2 == 1 {
		out = append(out, '\n')
	}
	return out
}

// compressed is what xz makes of files for an architecture: in one thread, so that the
// number of processors does not show in it. dpkg needs 32 MiB to unpack it.
func compressed(ctx context.Context, files []byte, arch string) ([]byte, error) {
	args := []string{"--stdout", "--threads=1", "--lzma2=preset=6,dict=32MiB"}
	if arch == "amd64" {
		args = append([]string{"--x86"}, args...)
	}
	var out, talk bytes.Buffer
	xz := exec.CommandContext(ctx, "xz", args...)
	xz.Stdin, xz.Stdout, xz.Stderr = bytes.NewReader(files), &out, &talk
	if err := xz.Run(); err != nil {
		return nil, fmt.Errorf("run xz (of Debian's xz-utils): %w %s", err, talk.Bytes())
	}
	return out.Bytes(), nil
}
