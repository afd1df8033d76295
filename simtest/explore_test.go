package simtest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/scenario"
	"github.com/volsim/volsim/simtest"
)

var _ = errors.New
var _ = os.Getenv
var _ = filepath.Join
var _ rapid.TB = (*listener)(nil)
var _ = fmt.Sprint

// listener is a test that notes what is said to it, and may fail.
type listener struct {
	testing.TB
	said   strings.Builder
	failed bool
}

func (l *listener) Helper()                           {}
func (l *listener) Logf(format string, args ...any)   { fmt.Fprintf(&l.said, format+"\n", args...) }
func (l *listener) Log(args ...any)                   { fmt.Fprintln(&l.said, args...) }
func (l *listener) Errorf(format string, args ...any) { l.Logf(format, args...); l.Fail() }
func (l *listener) Error(args ...any)                 { l.Log(args...); l.Fail() }
func (l *listener) Fatalf(format string, args ...any) { l.Logf(format, args...); l.FailNow() }
func (l *listener) Fatal(args ...any)                 { l.Log(args...); l.FailNow() }
func (l *listener) Fail()                             { l.failed = true }
func (l *listener) FailNow()                          { l.failed = true; runtime.Goexit() }
func (l *listener) Failed() bool                      { return l.failed }

// listen runs a test that may fail, and returns what it said.
func listen(t *testing.T, test func(t testing.TB)) *listener {
	t.Helper()
	l := &listener{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(l)
	}()
	<-done
	return l
}

func seeded(t *testing.T, seed string) {
	t.Helper()
	for name, value := range map[string]string{"rapid.seed": seed} {
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Value.Set(was) })
	}
}

func TestTry(t *testing.T) {
	seeded(t, "1")
	t.Chdir(t.TempDir())
	start := time.Now()
	w := scenario.Scenario{Parts: []string{"pvcontroller"}, Between: careless, Extra: []cluster.Part{reserver}}
	calls := 0
	l := listen(t, func(t testing.TB) {
		simtest.Check(t, w, simtest.Budget{Holds: 2, Schedules: 300}, simtest.Claims(1, 4), simtest.Volumes(1, 4), func(*rapid.T, *simtest.Draft) { calls++ })
	})
	t.Log(time.Since(start), calls, l.failed)
	t.Log(l.said.String())
}

func TestFixed(t *testing.T) {
	s := simtest.Parse(t, `
parts: pvcontroller
ends: differ
user a
  create volume v1 1Gi
user b
  create claim c1 1Gi class=
user c
  create claim c2 1Gi class=
`)
	s.Between, s.Extra = careless, []cluster.Part{reserver}
	for _, f := range []func(t testing.TB){
		func(t testing.TB) { simtest.Holds(t, s, 1) },
		func(t testing.TB) { simtest.Random(t, s, 1, 1000) },
	} {
		l := listen(t, f)
		t.Log(l.said.String())
	}
}
