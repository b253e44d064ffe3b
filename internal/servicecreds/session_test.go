package servicecreds

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = errors.New("refused") // by a fake service

func isRefused(err error) bool { return errors.Is(err, errRefused) }

// TestOneLoginForAll has fifty callers come at once, and again after a drop.
func TestOneLoginForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logins atomic.Int32
		s := NewSession(func(context.Context) (*int32, error) {
			time.Sleep(time.Second)
			n := logins.Add(1)
			return &n, nil
		}, isRefused)
		for round := int32(1); round < 3; round++ {
			for range 50 {
				go func() {
					if got, err := s.Get(t.Context()); err != nil || *got != round {
						t.Errorf("round %d: %v, %v", round, got, err)
					}
				}()
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			kept, err := s.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stale := new(int32)
			s.Drop(stale) // somebody else's, long replaced
			if again, err := s.Get(t.Context()); err != nil || again != kept {
				t.Errorf("what was not stale is gone: %v, %v", again, err)
			}
			s.Drop(kept)
		}
		if n := logins.Load(); n != 2 {
			t.Errorf("%d logins, want 2", n)
		}
	})
}

// TestWhoGivesUpFailsNoOther cancels the caller in whose context the login is
// made.
func TestWhoGivesUpFailsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSession(func(ctx context.Context) (*int, error) {
			select {
			case <-time.After(time.Second):
				return new(int), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, isRefused)
		hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() {
			if _, err := s.Get(hasty); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the hasty one: %v", err)
			}
		}()
		synctest.Wait()
		if _, err := s.Get(t.Context()); err != nil {
			t.Errorf("the patient one: %v", err)
		}
	})
}

// TestRefusedCredentialsRest counts how often they are shown; a failure of the
// network is tried again at once.
func TestRefusedCredentialsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins, fails := 0, errRefused
		s := NewSession(func(context.Context) (*int, error) {
			logins++
			return nil, fails
		}, isRefused)
		for range 100 {
			if _, err := s.Get(t.Context()); !isRefused(err) {
				t.Fatal(err)
			}
		}
		if logins != 1 {
			t.Errorf("shown %d times at once", logins)
		}
		time.Sleep(RefusalRests)
		logins, fails = 0, errors.New("no route to host")
		for range 3 {
			if _, err := s.Get(t.Context()); err == nil {
				t.Fatal("logged in")
			}
		}
		if logins != 3 {
			t.Errorf("%d tries, want 3", logins)
		}
	})
}

func TestPasswords(t *testing.T) {
	file := t.TempDir() + "/password"
	for content, want := range map[string]string{"s3cret\n": "s3cret", "s3cret": "s3cret", "a b\r\n": "a b", "": "",
		"\ufeffs3cret\r\n": "s3cret", "\ufeff": "",
		"\n": "", "a\nb\n": "", strings.Repeat("x", MaxPassword+1): ""} {
		replace(t, nil, file, []byte(content))
		got, err := Password{Text: "other", File: file, Option: "x.password_file"}.Read()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("password-of-file: %.10q: %q, %v, want %q", content, got, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "x.password_file: ") {
			t.Errorf("%.10q: %v does not name the option", content, err)
		}
	}
	if got, err := (Password{Text: "t"}).Read(); got != "t" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
