package addiff

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
)

// act is one thing that somebody does to the world. An act upon what is not there does nothing, so that a history stays one
// whatever is left out of it.
type act interface {
	fmt.Stringer
	do(u *user) error
}

// step is an act, how long the world is left to itself after it, and what goes wrong for the controller at first.
type step struct {
	act   act
	pause pause
	fault fault
}

// pause is how long the world is left to itself.
type pause time.Duration

// The pauses. A short one ends before all has come to rest, and nothing is compared after it. The others are longer than
// any period of upstream's controller, and than an attempt that is not answered and the back-off after it; one of them is
// shorter than six minutes, and one longer than that and the three in which a pod of three volumes may leave.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (3 min), pkg/volume/csi csiTimeout (2 min),
// pkg/util/goroutinemap/exponentialbackoff maxDurationBeforeRetry (2m2s) (v1.36).
const (
	short = pause(10 * time.Second)
	rest  = pause(260 * time.Second)
	long  = pause(560 * time.Second)
)

func (p pause) String() string { return time.Duration(p).String() }

func (s step) String() string {
	text := fmt.Sprintf("%s, then %s", s.act, s.pause)
	if s.fault.kind != "" {
		text += "  !" + s.fault.String()
	}
	return text
}

// history is what one world lives through.
type history []step

// String gives a line for each step.
func (h history) String() string {
	var b strings.Builder
	for i, s := range h {
		fmt.Fprintf(&b, "%2d  %s\n", i+1, s)
	}
	return b.String()
}

// user is everybody in a world but its controller.
type user struct {
	server *fake.Server
	client kubernetes.Interface
	seen   *observer
	faults *faults // of the controller
	now    func() time.Time
	down   func(meanwhile func() error) error // stops the controller for as long as meanwhile takes
	forces bool                               // the controller, from its next start on, forces detaches after a timeout

	attacher attacher
	kubelets map[string]string    // by node: what its kubelet does; "" works
	beaten   map[string]time.Time // by node: when its kubelet last wrote without a reason
}

var ctx = context.Background()

func stored[T fake.Object](u *user, resource, namespace, name string) (T, bool) {
	obj, ok := u.server.Get(resource, namespace, name)
	if !ok {
		var none T
		return none, false
	}
	return obj.DeepCopyObject().(T), true
}

// all are the objects of a resource, read-only, by name.
func all[T fake.Object](u *user, resource string) []T {
	var list []T
	for _, obj := range u.server.List(resource) {
		list = append(list, obj.(T))
	}
	return list
}

// tickPeriod is how long attacher and kubelets take to see what is to be done.
const tickPeriod = 5 * time.Second

// tick lets the attacher and the kubelets do what is to be done by now.
func (u *user) tick() error {
	if err := u.answer(); err != nil {
		return fmt.Errorf("attacher: %w", err)
	}
	if err := u.report(); err != nil {
		return fmt.Errorf("kubelets: %w", err)
	}
	return nil
}

// nothing is that time passes.
type nothing struct{}

func (nothing) String() string { return "nothing" }
func (nothing) do(*user) error { return nil }

// restart is the controller going down and coming up again, and what is done while it is down.
type restart struct{ meanwhile []act }

func (r restart) String() string {
	if len(r.meanwhile) == 0 {
		return "restart"
	}
	var acts []string
	for _, a := range r.meanwhile {
		acts = append(acts, a.String())
	}
	return "restart, meanwhile: " + strings.Join(acts, "; ")
}

func (r restart) do(u *user) error {
	return u.down(func() error {
		for _, a := range r.meanwhile {
			if err := a.do(u); err != nil {
				return err
			}
		}
		return nil
	})
}

// patient has a controller that starts never force a detach after a timeout, or do so again.
type patient struct{ on bool }

func (p patient) String() string { return fmt.Sprintf("whoever starts forces no detach: %t", p.on) }

func (p patient) do(u *user) error {
	u.forces = !p.on
	return nil
}

// acts are all that is done, in order.
func (h history) acts() iter.Seq[act] {
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
