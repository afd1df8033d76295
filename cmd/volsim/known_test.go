package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/volsim/volsim/internal/known"
)

// The list has a line of at most 120 columns for each bug.
func TestKnownListsBugs(t *testing.T) {
	status, out, errs := volsim(t.Context(), "known")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if status != 0 || errs != "" || len(lines) != len(known.Bugs())+1 {
		t.Fatalf("status %d, stderr %q:\n%s", status, errs, out)
	}
	title := strings.Index(lines[0], "BUG")
	for i, line := range lines[1:] {
		b := known.Bugs()[i]
		if utf8.RuneCountInString(line) > 120 || !strings.HasPrefix(line, b.Name+" ") || line[title:] != b.Title {
			t.Errorf("%s: %q", b.Name, line)
		}
	}
	if _, out, _ := volsim(t.Context(), "known", "--quiet"); strings.Count(out, "\n") != len(known.Bugs()) || !strings.HasPrefix(out, known.Bugs()[0].Name+"\n") {
		t.Errorf("want one name per line:\n%s", out)
	}
}

// A bug is found, told and saved; the saved file can be replayed and searched again. The mended code
// passes.
func TestKnownFindsABug(t *testing.T) {
	dir := t.TempDir()
	status, out, errs := volsim(t.Context(), "known", "kubernetes-86360", "--out", dir)
	saved, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
	if status != 0 || errs != "" || len(saved) != 1 {
		t.Fatalf("status %d, stderr %q, saved %q:\n%s", status, errs, saved, out)
	}
	for _, want := range []string{
		"https://github.com/kubernetes/kubernetes/issues/86360 (2019, maintainer)\n",
		"kubernetes-86360 violates I24 in schedule 2, with 1 deviation from the default order:\n",
		"replay: volsim replay " + filepath.ToSlash(saved[0]) + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q in\n%s", want, out)
		}
	}
	if status, out, errs := volsim(t.Context(), "replay", saved[0]); status != 1 || errs != "" || !strings.HasSuffix(out, "\nI24 is still violated\n") {
		t.Errorf("replay: status %d, stderr %q:\n%s", status, errs, out)
	}
	if status, out, _ := volsim(t.Context(), "explore", saved[0], "--strategy", "faults", "--out", dir); status != 1 ||
		!strings.Contains(out, " violates I24 in schedule 2,") {
		t.Errorf("explore: status %d:\n%s", status, out)
	}
	status, out, errs = volsim(t.Context(), "known", "kubernetes-86360", "--mended", "--out", dir)
	if status != 0 || errs != "" || !regexp.MustCompile(`\nthe mended code: \d+ schedules, no failure\n$`).MatchString(out) {
		t.Errorf("mended: status %d, stderr %q:\n%s", status, errs, out)
	}
}

func TestKnownRejects(t *testing.T) {
	unknown := writeTemp(t, "saved.txt", "drawn: volsim.known \"etcd-1\"\nuser alice\n  create claim data 1Gi\n")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"name", []string{"known", "etcd-1"}, `unknown bug "etcd-1" (see volsim known)`},
		{"name and all", []string{"known", "kubernetes-86360", "--all"}, "expected at most one NAME, or --all"},
		{"mended without a name", []string{"known", "--mended"}, "--mended: expected a NAME, or --all"},
		{"file", []string{"replay", unknown}, `unknown bug "etcd-1" (see volsim known)`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := volsim(t.Context(), tt.args...)
			if status != 2 || out != "" || !strings.Contains(errs, tt.want) {
				t.Errorf("status %d, stdout %q, stderr %q; want 2 and %q", status, out, errs, tt.want)
			}
		})
	}
	if entries, err := os.ReadDir(filepath.Dir(unknown)); err != nil || len(entries) != 1 {
		t.Errorf("files %v, %v; want only the saved one", entries, err)
	}
}
