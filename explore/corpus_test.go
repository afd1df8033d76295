package explore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
)

// reached returns the number of circumstances that a search exercised.
func reached(r explore.Report) int {
	n := 0
	for _, c := range r.Coverage {
		for _, p := range c.Points {
			n += min(p.Times, 1)
		}
	}
	return n
}

// TestCorpus checks that a search with a corpus exercises more than one without, that the next search
// begins with what the first has kept, and that its files can be replayed.
func TestCorpus(t *testing.T) {
	testcheck.Stepped(t)
	s, err := scenario.Find("one-pod-life")
	if err != nil {
		t.Fatal(err)
	}
	search := func(dir string, count int) explore.Report {
		r, err := explore.Search(t.Context(), s, explore.Config{Restarts: true, Count: count, Coverage: true, Corpus: dir})
		if err != nil || r.Failure != nil {
			t.Fatal(r.Failure, err)
		}
		return r
	}
	const count = 200
	dir := filepath.Join(t.TempDir(), "corpus")
	without, first := reached(search("", count)), reached(search(dir, count))
	files, err := filepath.Glob(filepath.Join(dir, "one-pod-life-*.txt"))
	if err != nil || len(files) == 0 || len(files) > count {
		t.Fatalf("%d files, %v", len(files), err)
	}
	again := reached(search(dir, count))
	if first <= without || again <= first {
		t.Errorf("%d circumstances without a corpus, %d with one, %d in the next search: want more each time", without, first, again)
	}
	again2, again3 := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	testcheck.Equal(t, "same contents, same result", reached(search(again2, 50)), reached(search(again3, 50)))

	text, err := os.ReadFile(slices.MaxFunc(files, strings.Compare))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := scenario.Parse("one-pod-life", string(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := explore.Replay(t.Context(), kept)
	if err != nil || r.Failure != nil || r.Mismatch != "" || len(kept.Schedule) == 0 {
		t.Errorf("replayed: %v, %v, %q, %d deviations", r.Failure, err, r.Mismatch, len(kept.Schedule))
	}
}

// TestCorpusFindsFailures checks that a failure under a schedule of the corpus is found and shrunk.
func TestCorpusFindsFailures(t *testing.T) {
	testcheck.Stepped(t)
	i := slices.IndexFunc(everyMutant(), func(m mutant) bool { return m.config.Strategy == explore.Faults })
	m := everyMutant()[i]
	dir := t.TempDir()
	r, err := explore.Search(t.Context(), m.scene(t, true, ""), explore.Config{Restarts: true, Corpus: dir, Seed: 1})
	if err != nil || r.Failure == nil {
		t.Fatalf("%s: %v, %v", m.name, r.Failure, err)
	}
	testcheck.Equal(t, m.name, m.rule, r.Failure.Scenario.Violates)
	if n := len(r.Failure.Scenario.Schedule); n > 2 {
		t.Errorf("%s: %d deviations", m.name, n)
	}
}

// TestCorpusErrors checks what a search with a corpus refuses.
func TestCorpusErrors(t *testing.T) {
	s, err := scenario.Find("two-claims-two-volumes")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "two-claims-two-volumes-00000000.txt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cfg  explore.Config
		want string
	}{
		{explore.Config{Corpus: dir, Jobs: 2}, "want one job"},
		{explore.Config{Corpus: dir, Strategy: explore.POS}, "only a portfolio"},
		{explore.Config{Corpus: dir, States: true}, "want one of them"},
		{explore.Config{Corpus: dir, Count: 50}, "two-claims-two-volumes-00000000.txt"},
	} {
		if _, err := explore.Search(t.Context(), s, tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
