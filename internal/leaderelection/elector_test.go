package leaderelection_test

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/leaderelection"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// election is a world of candidates for one Lease.
type election struct {
	*testworld.World
	processes map[string]*sim.Process
	said      []string
}

// runs starts a candidate.
func (e *election) runs(name string) {
	p := e.Host.Process(name)
	e.processes[name] = p
	leaderelection.Run(leaderelection.Config{
		Process: p, Client: e.Server.Client(p), Recorder: record.NewFakeRecorder(100),
		Namespace: "kube-system", Name: "disk.example.com", Identity: name,
		Started: func() { e.said = append(e.said, name+" leads") },
		Stopped: func() { e.said = append(e.said, name+" stops") },
	})
}

// pass lets time pass.
func (e *election) pass(d time.Duration) {
	clock := e.Host.Process("clock")
	clock.User("", func(context.Context) { clock.Sleep(d) })
	e.NoError(e.Host.Run())
}

func (e *election) lease() *coordinationv1.Lease {
	return testcheck.Must(e.User.CoordinationV1().Leases("kube-system").Get(context.Background(), "disk-example-com", metav1.GetOptions{}))
}

func TestElection(t *testing.T) {
	tests := []struct {
		name        string
		play        func(e *election)
		said        []string
		transitions int32
	}{
		{"one", func(e *election) { e.runs("a"); e.pass(time.Minute) }, []string{"a leads"}, 0},
		{"the second one waits", func(e *election) { e.runs("a"); e.runs("b"); e.pass(time.Minute) }, []string{"a leads"}, 0},
		{"the second one takes over", func(e *election) {
			e.runs("a")
			e.runs("b")
			e.pass(time.Second)
			e.Host.Crash(e.processes["a"])
			e.NoError(e.Host.Run()) // time passes, since no leader renews
		}, []string{"a leads", "b leads"}, 1},
		{"restarted with its identity", func(e *election) {
			e.runs("a")
			e.runs("b")
			e.pass(time.Second)
			e.Host.Crash(e.processes["a"])
			e.runs("a")
			e.pass(time.Minute)
		}, []string{"a leads", "a leads"}, 0},
		{"the Lease is taken away", func(e *election) {
			e.runs("a")
			e.pass(time.Second)
			lease := e.lease().DeepCopy()
			other := "other"
			lease.Spec.HolderIdentity = &other
			testcheck.Must(e.User.CoordinationV1().Leases("kube-system").Update(context.Background(), lease, metav1.UpdateOptions{}))
			e.pass(14 * time.Second)
		}, []string{"a leads", "a stops"}, 0},
		{"the Lease is deleted", func(e *election) {
			e.runs("a")
			e.pass(time.Second)
			e.NoError(e.User.CoordinationV1().Leases("kube-system").Delete(context.Background(), "disk-example-com", metav1.DeleteOptions{}))
			e.pass(time.Minute)
		}, []string{"a leads"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := &election{World: testworld.New(t, sim.SteppedConfig{StepsMax: 5000}), processes: map[string]*sim.Process{}}
			tt.play(e)
			testcheck.Equal(t, "who leads", tt.said, e.said)
			testcheck.Equal(t, "transitions", tt.transitions, *e.lease().Spec.LeaseTransitions)
		})
	}
}

// TestPeriods checks when a candidate without a leader takes the Lease, and how often it is renewed.
func TestPeriods(t *testing.T) {
	e := &election{World: testworld.New(t, sim.SteppedConfig{StepsMax: 5000}), processes: map[string]*sim.Process{}}
	e.runs("a")
	e.runs("b")
	e.pass(12 * time.Second)
	renewed := e.lease().Spec.RenewTime.Sub(sim.Epoch)
	testcheck.Equal(t, "last renewal", 10*time.Second, renewed)
	e.Host.Crash(e.processes["a"])
	e.NoError(e.Host.Run())
	testcheck.Equal(t, "taken over", 25*time.Second, e.lease().Spec.AcquireTime.Sub(sim.Epoch))
	testcheck.Equal(t, "seconds", 15, *e.lease().Spec.LeaseDurationSeconds)
}
