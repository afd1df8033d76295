package causality_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// A log of records and reads. Each record is a step of its own, and each write has its step as
// version.
type readLog struct {
	records []trace.Record
	reads   []trace.Read
}

func (l *readLog) add(task, kind, verb, object string, out trace.Outcome) {
	step := len(l.records) + 1
	l.records = append(l.records, trace.Record{
		Step: step, HostStep: step, Task: task, Action: trace.Action{Kind: trace.Kind(kind), Verb: verb, Object: object}, Outcome: out,
	})
}

// write adds a write, whose version is rv=STEP.
func (l *readLog) write(task, verb, object, name, color string) {
	obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"color": color}}}
	out := trace.Outcome{Detail: fmt.Sprintf("rv=%d", len(l.records)+1), After: obj}
	if verb != "create" {
		out.Before = obj
	}
	l.add(task, "api", verb, object, out)
}

func (l *readLog) read(task, verb, object string, version, items int, selects func(runtime.Object) bool) {
	l.reads = append(l.reads, trace.Read{
		Step: len(l.records), Task: task, Verb: verb, Object: object, Version: version, Items: items, Selects: selects,
	})
}

func red(obj runtime.Object) bool { return obj.(*corev1.Secret).Labels["color"] == "red" }

func TestFindReads(t *testing.T) {
	const worker = "operator/boxes"
	conflict := trace.Outcome{Err: apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "a", nil)}
	var l readLog
	l.add(worker, "work", "sync", "box", trace.Outcome{})
	l.read(worker, "list", "secrets/default", 0, 0, nil)
	l.write(worker, "create", "secrets/default/a-*", "a-1", "red") // 2
	l.add(worker, "work", "sync", "box", trace.Outcome{})          // 3: a new key
	l.read(worker, "list", "secrets/default", 1, 0, red)           // lacks 2
	l.read(worker, "get", "secrets/default/other", 0, 0, nil)      // lacks nothing
	l.read(worker, "get", "secrets/default/a-1", 1, 0, nil)        // lacks 2
	l.write("alice", "create", "secrets/default/b", "b", "blue")   // 4
	l.write(worker, "create", "secrets/default/a-*", "a-2", "red") // 5
	l.add(worker, "work", "sync", "box", trace.Outcome{})          // 6
	l.read(worker, "get", "secrets/default/b", 5, 1, nil)
	l.write("alice", "patch", "secrets/default/b", "b", "red")                     // 7
	l.add(worker, "api", "update", "secrets/default/b", conflict)                  // 8
	l.add("bob", "api", "get", "secrets/default/b", trace.Outcome{Detail: "rv=7"}) // 9
	l.write("alice", "update", "secrets/default/b", "b", "red")                    // 10
	found := causality.FindReads(l.records, l.reads, 0, func(process string) bool { return process != "alice" },
		func(*trace.Record) bool { return true })
	var got []string
	for _, at := range []int{0, 2, 5} {
		for _, read := range found.Cached[at] {
			got = append(got, read.String())
		}
	}
	want := []string{
		"lists the secrets of default in its cache: none found (rv 1); it has not seen step 2, where it created secret default/a-1 itself",
		"gets secret default/a-1 in its cache: not found; it has not seen step 2, where it created it itself",
		"reads secret default/b in its cache (rv 4)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	base, has := found.Bases[7]
	if words := base.Describe(&l.records[7]); !has || words != "it had read it in its cache in step 6, before step 7, where alice changed it" {
		t.Errorf("the conflict: %q", words)
	}
	if len(found.Bases) != 1 || len(found.Live) != 0 || !found.Caches["operator"] || found.Caches["bob"] {
		t.Errorf("%+v", found)
	}

	// A conflict after a read from the server.
	l.add("bob", "api", "update", "secrets/default/b", conflict) // 11
	found = causality.FindReads(l.records, l.reads, 10, func(process string) bool { return process == "bob" },
		func(*trace.Record) bool { return true })
	base = found.Bases[10]
	if words := base.Describe(&l.records[10]); words != "it had read it in step 9, before step 10, where alice changed it" || !found.Live[8] {
		t.Errorf("the conflict of a user: %q, %v", words, found.Live)
	}
}
