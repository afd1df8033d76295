package invariant

import (
	"errors"
	"testing"

	"github.com/volsim/volsim/sim/trace"
)

func TestQuietAtRest(t *testing.T) {
	w := newOpsWorld(t, "L8")
	look := func() { w.note("pvcontroller/claims", trace.KindWork, "sync", "default/data", "", nil) }
	read := func() {
		w.note("pvcontroller/volumes", trace.KindAPI, "get", "persistentvolumeclaims/default/data", "", nil)
	}
	read() // activity before rest does not count
	if err := w.check.Resync(func() error { look(); w.addPod("by-the-user", ""); return nil }); err != nil {
		t.Fatal(err)
	}
	w.broken()
	if err := w.check.Resync(func() error { w.event("crash", "pvcontroller"); read(); return nil }); err != nil {
		t.Fatal(err)
	}
	w.broken()
	if err := w.check.Resync(func() error { read(); return nil }); err != nil {
		t.Fatal(err)
	}
	read()
	w.broken("L8: an API request when nothing is left to do: pvcontroller: get persistentvolumeclaims/default/data, when nothing was left to do")
	failed := errors.New("bound on steps reached")
	if err := w.check.Resync(func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("error = %v, want that of the pass", err)
	}
}
