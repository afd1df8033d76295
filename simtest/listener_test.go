package simtest_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// listener is a test that notes what it says, and may fail.
type listener struct {
	testing.TB
	said   strings.Builder
	failed bool
}

func (l *listener) Helper()                           {}
func (l *listener) Name() string                      { return "TestListened" }
func (l *listener) Context() context.Context          { return context.Background() }
func (l *listener) Logf(format string, args ...any)   { fmt.Fprintf(&l.said, format+"\n", args...) }
func (l *listener) Log(args ...any)                   { fmt.Fprintln(&l.said, args...) }
func (l *listener) Errorf(format string, args ...any) { l.Logf(format, args...); l.Fail() }
func (l *listener) Error(args ...any)                 { l.Log(args...); l.Fail() }
func (l *listener) Fatalf(format string, args ...any) { l.Logf(format, args...); l.FailNow() }
func (l *listener) Fatal(args ...any)                 { l.Log(args...); l.FailNow() }
func (l *listener) Fail()                             { l.failed = true }
func (l *listener) FailNow()                          { l.failed = true; runtime.Goexit() }
func (l *listener) Failed() bool                      { return l.failed }

// listen runs a test that may fail, and returns what it said and whether it failed.
func listen(test func(t testing.TB)) (said string, failed bool) {
	l := &listener{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(l)
	}()
	<-done
	return l.said.String(), l.failed
}

// rapidly sets rapid's flags for one test, such as "checks=20".
func rapidly(t *testing.T, flags ...string) {
	t.Helper()
	for _, f := range flags {
		name, value, _ := strings.Cut(f, "=")
		name = "rapid." + name
		was := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := flag.Set(name, was); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantWords fails the test unless the text contains all of the words.
func wantWords(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q:\n%s", w, said)
		}
	}
}
