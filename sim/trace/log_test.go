package trace_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim/trace"
)

func TestConcurrentAppendsAreNumberedAndWatchedOnce(t *testing.T) {
	t.Parallel()
	const actors, each = 8, 200
	var log trace.Log
	var mu sync.Mutex
	watched := map[int]string{}
	log.Watch(func(r trace.Record) {
		mu.Lock()
		defer mu.Unlock()
		if other, ok := watched[r.Step]; ok {
			t.Errorf("step %d is of %s and of %s", r.Step, other, r.Task)
		}
		watched[r.Step] = r.Task
	})
	var wg sync.WaitGroup
	for i := range actors {
		wg.Go(func() {
			for n := range each {
				log.Append(trace.Record{Task: fmt.Sprint(i), Action: trace.Action{Kind: trace.KindWork, Verb: "sync", Object: fmt.Sprint(n)}})
				if len(log.Records()) > log.Len() {
					t.Error("the log has become shorter")
				}
			}
		})
		wg.Go(func() { log.Watch(func(trace.Record) {}) })
	}
	wg.Wait()
	records := log.Records()
	if len(records) != actors*each {
		t.Fatalf("%d records, want %d", len(records), actors*each)
	}
	next := map[string]int{}
	for i, r := range records {
		if r.Step != i+1 || r.Object != fmt.Sprint(next[r.Task]) {
			t.Fatalf("record %d is step %d and %s of actor %s, want %d", i+1, r.Step, r.Object, r.Task, next[r.Task])
		}
		if watched[r.Step] != r.Task {
			t.Fatalf("step %d is of %s, but was told as of %q", r.Step, r.Task, watched[r.Step])
		}
		next[r.Task]++
	}
}

func TestWatchSeesLaterRecords(t *testing.T) {
	t.Parallel()
	var log trace.Log
	var first, second []int
	log.Append(trace.Record{})
	log.Watch(func(r trace.Record) { first = append(first, r.Step) })
	log.Append(trace.Record{})
	log.Watch(func(r trace.Record) { second = append(second, r.Step) })
	log.Append(trace.Record{Step: 99}) // the log numbers
	if diff := cmp.Diff([][]int{{2, 3}, {3}}, [][]int{first, second}); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestRecordsBelongToTheCaller(t *testing.T) {
	t.Parallel()
	var log trace.Log
	log.Append(trace.Record{Task: "a"})
	_ = append(log.Records()[:0], trace.Record{Task: "b"})
	if got := log.Records(); !slices.ContainsFunc(got, func(r trace.Record) bool { return r.Task == "a" }) {
		t.Errorf("the log now holds %v", got)
	}
}

// A log with a bound keeps the last records and their numbers.
func TestLogKeepsTheLast(t *testing.T) {
	for _, most := range []int{1, 3, 40, 2000} {
		l := trace.Log{Max: most}
		for n := range 10 * most {
			l.Append(trace.Record{})
			if n%(most/20+1) != 0 {
				continue // looking at all takes long
			}
			records := l.Records()
			if len(records) != l.Len() || len(records) < min(most, n+1) || len(records) >= 2*most {
				t.Fatalf("of %d, %d records are kept, %d counted; want at least %d and less than twice as many",
					n+1, len(records), l.Len(), most)
			}
			for i, r := range records {
				if want := n + 1 - len(records) + i + 1; r.Step != want {
					t.Fatalf("of %d, record %d has step %d, want %d", n+1, i, r.Step, want)
				}
			}
		}
	}
}

func TestLogOmits(t *testing.T) {
	watched := 0
	l := &trace.Log{Omit: func(r trace.Record) bool { return r.Verb == "renew" }}
	l.Watch(func(trace.Record) { watched++ })
	for _, verb := range []string{"create", "renew", "renew", "delete"} {
		l.Append(trace.Record{Task: "p/t", Action: trace.Action{Kind: trace.KindAPI, Verb: verb}})
	}
	if got := l.Records(); len(got) != 2 || got[1].Verb != "delete" || got[1].Step != 2 || watched != 2 {
		t.Errorf("%d watched; records\n%s", watched, l.Text())
	}
}

func TestReadsAreKeptOnRequest(t *testing.T) {
	var log trace.Log
	log.AppendRead(trace.Read{Task: "a/b", Object: "pods/default"})
	log.KeepReads = true
	log.Append(trace.Record{Task: "a/b"})
	log.AppendRead(trace.Read{Task: "a/b", Object: "pods/default"})
	if reads := log.Reads(); len(reads) != 1 || reads[0].Step != 1 || log.Len() != 1 {
		t.Errorf("%+v, %d records", reads, log.Len())
	}
}
