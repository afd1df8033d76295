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

func TestBackwardIsTheReverseOfRecords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		max, appended int
	}{
		{"empty", 0, 0}, {"one piece", 0, 5}, {"pieces", 0, 300}, {"dropped", 40, 333},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := trace.Log{Max: test.max}
			for range test.appended {
				log.Append(trace.Record{Task: "a"})
			}
			var got []int
			for r := range log.Backward() {
				got = append(got, r.Step)
				log.Append(trace.Record{Task: "meanwhile"})
			}
			var want []int
			for _, r := range slices.Backward(log.Records()) {
				if r.Task == "a" {
					want = append(want, r.Step)
				}
			}
			if test.max > 0 {
				got = got[:len(want)] // what was appended meanwhile dropped some
			}
			if len(want) == 0 && test.appended > 0 && test.max == 0 || !slices.Equal(got, want) {
				t.Errorf("steps %v, want %v", got, want)
			}
		})
	}
}

func TestResetLogIsEmpty(t *testing.T) {
	t.Parallel()
	log := trace.Log{KeepReads: true}
	watched := 0
	log.Watch(func(trace.Record) { watched++ })
	fill := func(task string, n int) {
		for range n {
			log.AppendCall(trace.Record{Task: task}, []uintptr{1})
		}
		log.AppendRead(trace.Read{Task: task})
	}
	fill("before", 200)
	log.Reset()
	if log.Len() != 0 || log.Steps() != 0 || len(log.Records()) != 0 || len(log.Reads()) != 0 || log.Callers(1) != nil {
		t.Errorf("not empty: %d records", log.Len())
	}
	fill("after", 100)
	var steps []int
	for _, r := range log.Records() {
		if r.Task != "after" {
			t.Fatalf("a record of %s", r.Task)
		}
		steps = append(steps, r.Step)
	}
	if len(steps) != 100 || steps[0] != 1 || steps[99] != 100 || len(log.Reads()) != 1 || watched != 200 {
		t.Errorf("steps %v, %d reads, %d watched", steps, len(log.Reads()), watched)
	}
}
