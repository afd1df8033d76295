package addiff

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// An act is an action of a user or of another component. It does nothing if its object does not
// exist, so that rapid may leave out any act of a history.
type act interface {
	fmt.Stringer
	do(w *world) error
}

// A step is an act, the pause after it, and the fault that is injected during the outage.
type step struct {
	act   act
	pause pause
	fault histories.Fault
}

// outage is how long a fault lasts.
const outage = 15 * time.Second

// A pause is the time until the next step.
type pause time.Duration

// A short pause ends before the world is at rest, and no state is compared after it. The others are
// longer than any period of upstream's controller, and than an unanswered attempt with its
// back-off. rest is shorter than six minutes. long is longer than six minutes and the three that
// upstream may take to remove a pod with three volumes.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (3 min), pkg/volume/csi
// csiTimeout (2 min), pkg/util/goroutinemap/exponentialbackoff maxDurationBeforeRetry (2m2s)
// (v1.36).
const (
	short = pause(10 * time.Second)
	rest  = pause(260 * time.Second)
	long  = pause(560 * time.Second)
)

func (p pause) String() string { return time.Duration(p).String() }

func (s step) String() string {
	text := fmt.Sprintf("%s, then %s", s.act, s.pause)
	if s.fault.Kind != "" {
		text += "  !" + s.fault.String()
	}
	return text
}

var ctx = context.Background()

func stored[T fake.Object](w *world, resource, namespace, name string) (T, bool) {
	return histories.Stored[T](w.server, resource, namespace, name)
}

// all returns the objects of a resource by name. They are read-only.
func all[T fake.Object](w *world, resource string) []T {
	var list []T
	for _, obj := range w.server.List(resource) {
		list = append(list, obj.(T))
	}
	return list
}

// nothing does nothing.
type nothing struct{}

func (nothing) String() string  { return "nothing" }
func (nothing) do(*world) error { return nil }

// restart stops the controller, performs acts, and starts it again.
type restart struct{ meanwhile []act }

func (r restart) String() string {
	if len(r.meanwhile) == 0 {
		return "restart"
	}
	return "restart, meanwhile: " + histories.Join(r.meanwhile)
}

func (r restart) do(w *world) error {
	return w.down(func() error {
		for _, a := range r.meanwhile {
			if err := a.do(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// disableForceDetach sets an option of the controller, from its next start on.
type disableForceDetach struct{ on bool }

func (d disableForceDetach) String() string { return fmt.Sprintf("disable force detach: %t", d.on) }

func (d disableForceDetach) do(w *world) error {
	w.disableForceDetach = d.on
	return nil
}

// acts returns all acts of a history in order, except restarts.
func acts(h history) iter.Seq[act] {
	return func(yield func(act) bool) {
		for _, s := range h {
			more := []act{s.act}
			if r, ok := s.act.(restart); ok {
				more = r.meanwhile
			}
			for _, a := range more {
				if !yield(a) {
					return
				}
			}
		}
	}
}
