package statefulset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim"
)

// TestLife: a set is created, scaled, updated and deleted. Its claims remain and are found again.
func TestLife(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newSet(3))
		w.want("web-0=1 web-1=1 web-2=1 | data-web-0 data-web-1 data-web-2", "created")
		if got := w.status(); got != "3 3 3 3 3" {
			t.Fatalf("status %s", got)
		}
		w.edit(replicas(1))
		w.want("web-0=1 | data-web-0 data-web-1 data-web-2", "scaled down")
		w.edit(replicas(3), image("image:2"))
		w.want("web-0=2 web-1=2 web-2=2 | data-web-0 data-web-1 data-web-2", "scaled up and updated")
		if s := w.set().Status; s.CurrentRevision != s.UpdateRevision || w.status() != "3 3 3 3 3" {
			t.Fatalf("status %+v", s)
		}
		w.edit(image("image:1"))
		w.want("web-0=1 web-1=1 web-2=1 | data-web-0 data-web-1 data-web-2", "rolled back")
		if got := w.revisions(); got != "2=2 3=1" {
			t.Fatalf("revisions %s", got)
		}
		w.deleteSet("Background")
		w.want(" | data-web-0 data-web-1 data-web-2", "deleted")
	}
}

// TestOrder: without a seed, pods are created in order and deleted in the opposite one.
func TestOrder(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newSet(2))
	w.Run()
	w.edit(replicas(0))
	w.Run()
	want := []string{
		"create data-web-0", "create web-0", "create data-web-1", "create web-1", "delete web-1", "delete web-0",
	}
	if diff := cmp.Diff(want, w.writes()); diff != "" {
		t.Errorf("requests (-want +got):\n%s\n%s", diff, w.Host.Log().Text())
	}
	events := []string{
		"Normal SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
		"Normal SuccessfulCreate Create Claim data-web-1 Pod web-1 in StatefulSet web success",
		"Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
		"Normal SuccessfulCreate Create Pod web-1 in StatefulSet web successful",
		"Normal SuccessfulDelete Delete Pod web-0 in StatefulSet web successful",
		"Normal SuccessfulDelete Delete Pod web-1 in StatefulSet web successful",
	}
	if diff := cmp.Diff(events, w.messages()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
