package archtest

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// banned are words that Go files do not use, with what to write instead: an engineer
// searches for the standard term. Each is a part of an identifier, or a word of a
// comment or of a string.
var banned = map[string]string{
	"acquaintance": "node lookup",
	"crew":         "worker pool, workers",
	"errand":       "task",
	"farewell":     "record closed",
	"ferry":        "batcher",
	"favour":       "admit",
	"favours":      "admit",
	"indulge":      "admit",
	"lent":         "lease",
	"patience":     "timeout, wait, limit",
	"reign":        "tenure, term",
	"sighting":     "seen request",
	"sulk":         "error TTL",
	"turnstile":    "limiter",
}

// bannedIdentifiers are words that comments may use in their plain sense, and
// identifiers may not.
var bannedIdentifiers = map[string]string{
	"knocker": "prober",
	"shelf":   "cache, collection",
}

// keptWords are uses that other rules fix, by file and word.
var keptWords = map[string]string{
	"test/archtest/vocabulary_test.go *":  "the list itself",
	"test/labtest/rom_kernel.go farewell": "what a boot program prints at its end",
	"test/archtest/words_test.go *":       "the list of words for pages",
}

var wordInCode = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// TestVocabulary reads every Go file of the repository.
func TestVocabulary(t *testing.T) {
	tree, err := wholeTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tree.Files {
		for _, hit := range vocabularyOf(file.Path, file.Source) {
			t.Error(hit)
		}
	}
}

// vocabularyOf returns a line for each banned word of a file.
func vocabularyOf(name string, src []byte) (hits []string) {
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(name, -1, len(src)), src, nil, scanner.ScanComments)
	for {
		pos, kind, text := s.Scan()
		if kind == token.EOF {
			return hits
		}
		if kind != token.IDENT && kind != token.COMMENT && kind != token.STRING {
			continue
		}
		for _, word := range wordInCode.FindAllString(text, -1) {
			word = strings.ToLower(word)
			instead := banned[word]
			if instead == "" && kind == token.IDENT {
				instead = bannedIdentifiers[word]
			}
			if instead == "" || keptWords[name+" "+word] != "" || keptWords[name+" *"] != "" {
				continue
			}
			hits = append(hits, files.Position(pos).String()+": "+word+": write "+instead)
		}
	}
}

// TestBannedWordsAreFound: the rule finds each kind of place, and parts of names.
func TestBannedWordsAreFound(t *testing.T) {
	const src = "package p\n\n// The crew waits.\nvar newCrew = \"sulk\"\n\nvar shelf, silent int // a shelf\n"
	got := vocabularyOf("p/p.go", []byte(src))
	for _, want := range []string{"p/p.go:3:1: crew", "p/p.go:4:5: crew", "p/p.go:4:15: sulk", "p/p.go:6:5: shelf"} {
		found := false
		for _, hit := range got {
			found = found || strings.HasPrefix(hit, want)
		}
		if !found {
			t.Errorf("%q is not among %q", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d hits, want 4: %q", len(got), got)
	}
	for word := range banned {
		if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsLower(r) }) {
			t.Errorf("%q can never be found: words are compared in lower case", word)
		}
	}
}
