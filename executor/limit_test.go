package executor_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/internal/testcheck"
)

func keyOn(volume string, node int) executor.Key {
	return executor.Key{
		Volume: corev1.UniqueVolumeName("kubernetes.io/csi/driver^" + volume),
		Node:   types.NodeName(fmt.Sprintf("n%d", node)),
	}
}

// An operation on another volume starts, whatever operations hang.
func TestLimitNeverDelaysAnotherVolume(t *testing.T) {
	t.Parallel()
	b := newBenchWith(2)
	defer b.host.Close()
	for node := range 5 {
		testcheck.Must(b.start(keyOn("a", node), executor.Attach))
	}
	if want := "volume_attach a n0; volume_attach a n1"; b.moving() != want {
		t.Errorf("running of one volume: %q, want %q", b.moving(), want)
	}
	for _, volume := range []string{"b", "c", "d"} {
		testcheck.Must(b.start(keyOn(volume, 0), executor.Attach))
	}
	if want := "volume_attach a n0; volume_attach a n1; volume_attach b n0; volume_attach c n0; volume_attach d n0"; b.moving() != want {
		t.Errorf("running: %q, want %q", b.moving(), want)
	}
	if b.x.Running() != 8 {
		t.Errorf("%d were started, want 8", b.x.Running())
	}
}

// An operation that waits for the limit counts as started for overlapping operations.
func TestOperationWaitingForTheLimitIsPending(t *testing.T) {
	t.Parallel()
	b := newBenchWith(1)
	defer b.host.Close()
	first := testcheck.Must(b.start(keyOn("a", 0), executor.Attach))
	testcheck.Must(b.start(keyOn("a", 1), executor.Attach))
	if _, err := b.start(keyOn("a", 1), executor.Detach); err == nil || !b.x.Pending(keyOn("a", 1)) {
		t.Errorf("an overlapping one was started:\n%s", b.x)
	}
	b.end(first, nil)
	if want := "volume_attach a n1"; b.moving() != want {
		t.Errorf("afterwards run %q, want %q", b.moving(), want)
	}
}

// Waiting operations run in the order of their start; a volume without running operations may start
// one immediately.
func TestWaitingOperationsRunInOrder(t *testing.T) {
	t.Parallel()
	b := newBenchWith(2)
	defer b.host.Close()
	a0 := testcheck.Must(b.start(keyOn("a", 0), executor.Attach))
	a1 := testcheck.Must(b.start(keyOn("a", 1), executor.Attach))
	testcheck.Must(b.start(keyOn("a", 2), executor.Attach))
	b0 := testcheck.Must(b.start(keyOn("b", 0), executor.Attach))
	b1 := testcheck.Must(b.start(keyOn("b", 1), executor.Attach))
	steps := []struct {
		ends *job
		err  error
		want string
	}{
		{b0, nil, "volume_attach a n0; volume_attach a n1; volume_attach b n1"},
		{a0, errBroken, "volume_attach a n1; volume_attach b n1"},
		{b1, nil, "volume_attach a n1; volume_attach a n2"},
		{a1, nil, "volume_attach a n2"},
	}
	for i, step := range steps {
		b.end(step.ends, step.err)
		if b.moving() != step.want {
			t.Fatalf("after end %d run %q, want %q", i+1, b.moving(), step.want)
		}
	}
}
