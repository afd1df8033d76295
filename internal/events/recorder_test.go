package events_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// world is an API server and processes with a recorder each, on either host. The clock stands still
// until it is advanced.
type world struct {
	*testworld.On[sim.Host]
	move func(time.Duration) // the clock
}

// onBothHosts runs a test in a world on each host.
func onBothHosts(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	t.Run("stepped", func(t *testing.T) {
		t.Parallel()
		host := sim.NewStepped(sim.SteppedConfig{})
		test(newWorld(t, host, func(d time.Duration) { host.SetTime(host.Now().Add(d)) }))
	})
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		clock := clocktesting.NewFakeClock(sim.Epoch)
		test(newWorld(t, sim.NewLive(sim.LiveConfig{Clock: clock}), clock.Step))
	})
}

func newWorld(t *testing.T, host sim.Host, move func(time.Duration)) *world {
	t.Helper()
	w := testworld.NewOn(t, host, fake.Config{Namespaces: []string{"team"}})
	host.Start()
	return &world{w, move}
}

// reporter is a process with a recorder.
type reporter struct {
	w        *world
	process  *sim.Process
	recorder *events.Recorder
}

func (w *world) reporter(name string) *reporter {
	c := w.Host.Process(name)
	return &reporter{w: w, process: c, recorder: events.New(events.Config{
		Process: c, Client: w.Server.Client(c), Source: "source", Host: "node-1",
	})}
}

// record runs a task of the process that records something.
func (r *reporter) record(what func(*events.Recorder)) {
	r.process.User("records", func(context.Context) { what(r.recorder) })
}

func (r *reporter) warn(object *corev1.PersistentVolumeClaim, message string) {
	r.record(func(recorder *events.Recorder) { recorder.Event(object, corev1.EventTypeWarning, "Reason", message) })
}

// stored returns the events sorted by name.
func (w *world) stored() []*corev1.Event {
	var all []*corev1.Event
	for _, object := range w.Server.List("events") {
		all = append(all, object.(*corev1.Event))
	}
	return all
}

// counts returns the messages of the events with their counts, sorted by the events' names, which
// contain the time.
func (w *world) counts() []string {
	var lines []string
	for _, e := range w.stored() {
		lines = append(lines, fmt.Sprintf("%s: %s x%d", e.InvolvedObject.Name, e.Message, e.Count))
	}
	return lines
}

// expect waits until the counts are as wanted.
func (w *world) expect(want ...string) {
	w.Helper()
	got := func() string { return cmp.Diff(want, w.counts(), cmpopts.EquateEmpty()) }
	w.Explain = func() string { return "events (-want +got):\n" + got() }
	w.Until("events", func() bool { return got() == "" })
}

// requests returns the verbs of the reporters' requests so far, with ! for a failed one.
func (w *world) requests() []string {
	var verbs []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind != trace.KindAPI || r.Task == "user" {
			continue
		}
		verb := r.Verb
		if r.Failed() {
			verb += "!"
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

func (w *world) expectRequests(want ...string) {
	w.Helper()
	testcheck.Equal(w, "requests", want, w.requests())
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "team", Name: name, UID: "uid-1", ResourceVersion: "7",
	}}
}

func TestEventIsWritten(t *testing.T) {
	onBothHosts(t, func(w *world) {
		w.move(1500 * time.Millisecond)
		r := w.reporter("controller")
		r.record(func(recorder *events.Recorder) {
			recorder.AnnotatedEventf(claim("data"), map[string]string{"a": "b"}, corev1.EventTypeNormal, "Provisioned",
				"made %s of %d", "it", 3)
		})
		w.expect("data: made it of 3 x1")
		at := metav1.NewTime(sim.Epoch.Add(time.Second)) // the API has whole seconds
		want := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team", Annotations: map[string]string{"a": "b"}},
			InvolvedObject: corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "team", Name: "data", UID: "uid-1",
				ResourceVersion: "7",
			},
			Reason: "Provisioned", Message: "made it of 3", Type: corev1.EventTypeNormal, Count: 1,
			FirstTimestamp: at, LastTimestamp: at,
			Source:              corev1.EventSource{Component: "source", Host: "node-1"},
			ReportingController: "source", ReportingInstance: "node-1",
		}
		got := w.stored()[0]
		truncate := cmp.Transformer("seconds", func(t metav1.Time) int64 { return t.Unix() })
		storedByServer := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "Name", "UID", "ResourceVersion",
			"CreationTimestamp")
		if diff := cmp.Diff(want, got, truncate, storedByServer); diff != "" {
			t.Errorf("event (-want +got):\n%s", diff)
		}
		prefix := fmt.Sprintf("data.%x", sim.Epoch.Add(1500*time.Millisecond).UnixNano()>>24)
		if !strings.HasPrefix(got.Name, prefix) {
			t.Errorf("name %s, want the object and the time: %s…", got.Name, prefix)
		}
		w.expectRequests("create")
	})
}

func TestNamespaceOfAnEvent(t *testing.T) {
	onBothHosts(t, func(w *world) {
		r := w.reporter("controller")
		r.record(func(recorder *events.Recorder) {
			recorder.Event(claim("data"), corev1.EventTypeNormal, "R", "namespaced")
			recorder.Eventf(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, corev1.EventTypeNormal,
				"R", "of the %s", "cluster")
			recorder.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}, corev1.EventTypeNormal, "R",
				"of the cluster")
		})
		w.expect("node: of the cluster x1", "pv: of the cluster x1", "data: namespaced x1")
		want := map[string]string{"node": "default", "pv": "default", "data": "team"}
		got := map[string]string{}
		for _, e := range w.stored() {
			got[e.InvolvedObject.Name] = e.Namespace
			if e.InvolvedObject.Name != "data" && e.InvolvedObject.Namespace != "" {
				t.Errorf("%s is said to be in namespace %q", e.InvolvedObject.Name, e.InvolvedObject.Namespace)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("namespaces (-want +got):\n%s", diff)
		}
	})
}

func TestRepeatedEventIncrementsItsCount(t *testing.T) {
	onBothHosts(t, func(w *world) {
		r := w.reporter("controller")
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x1")
		w.move(time.Minute)
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x2")
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x3")
		w.expectRequests("create", "patch", "patch")
		e := w.stored()[0]
		want := []int64{sim.Epoch.Unix(), sim.Epoch.Unix() + 60}
		if diff := cmp.Diff(want, []int64{e.FirstTimestamp.Unix(), e.LastTimestamp.Unix()}); diff != "" {
			t.Errorf("first and last time (-want +got):\n%s", diff)
		}
	})
}

func TestDifferentEvents(t *testing.T) {
	recreated := claim("data")
	recreated.UID = "uid-2"
	later := claim("data")
	later.ResourceVersion = "8"
	tests := []struct {
		name    string
		object  *corev1.PersistentVolumeClaim
		kind    string
		reason  string
		message string
		same    bool
	}{
		{"the same", claim("data"), "Warning", "Reason", "message", true},
		{"a later version of the object", later, "Warning", "Reason", "message", true},
		{"another object of that name", recreated, "Warning", "Reason", "message", false},
		{"another object", claim("logs"), "Warning", "Reason", "message", false},
		{"another type", claim("data"), "Normal", "Reason", "message", false},
		{"another reason", claim("data"), "Warning", "Other", "message", false},
		{"another message", claim("data"), "Warning", "Reason", "other", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onBothHosts(t, func(w *world) {
				r := w.reporter("controller")
				r.record(func(recorder *events.Recorder) {
					recorder.Event(claim("data"), "Warning", "Reason", "message")
					recorder.Event(tt.object, tt.kind, tt.reason, tt.message)
				})
				want := []string{"data: message x1", tt.object.Name + ": " + tt.message + " x1"}
				if tt.same {
					want = []string{"data: message x2"}
				}
				w.expect(want...)
			})
		})
	}
}

func TestDeletedEventIsCreatedAgain(t *testing.T) {
	onBothHosts(t, func(w *world) {
		r := w.reporter("controller")
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x1")
		first := w.stored()[0]
		w.NoError(w.User.CoreV1().Events("team").Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
		w.expect()
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x1")
		if again := w.stored()[0]; again.Name == first.Name {
			t.Errorf("the event has the name of the one that is gone: %s", again.Name)
		}
		r.warn(claim("data"), "no disk")
		w.expect("data: no disk x2")
		w.expectRequests("create", "patch!", "create", "patch")
	})
}

// TestNamesCollide has two processes of the same source, as two replicas have, record events about
// one object at the same instant.
func TestNamesCollide(t *testing.T) {
	onBothHosts(t, func(w *world) {
		one, two := w.reporter("replica-1"), w.reporter("replica-2")
		one.warn(claim("data"), "seen by one")
		w.expect("data: seen by one x1")
		two.warn(claim("data"), "seen by two")
		w.expect("data: seen by one x1", "data: seen by two x1")
		w.expectRequests("create", "create!", "create")
		two.warn(claim("data"), "seen by two")
		w.expect("data: seen by one x1", "data: seen by two x2")
	})
}

func TestEventThatCannotBeWrittenIsDropped(t *testing.T) {
	onBothHosts(t, func(w *world) {
		r := w.reporter("controller")
		nowhere := claim("lost")
		nowhere.Namespace = "nowhere"
		r.record(func(recorder *events.Recorder) {
			recorder.Event(nowhere, corev1.EventTypeWarning, "Reason", "cannot be written")
			recorder.Event(claim("data"), corev1.EventTypeWarning, "Reason", "can be")
		})
		w.expect("data: can be x1")
		w.expectRequests("create!", "create")
	})
}

func TestSameWorldHasTheSameNames(t *testing.T) {
	t.Parallel()
	run := func() string {
		w := newWorld(t, sim.NewStepped(sim.SteppedConfig{}), nil)
		r := w.reporter("controller")
		r.warn(claim("data"), "one")
		r.warn(claim("data"), "two")
		w.Run()
		return w.Host.Log().Text()
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}
