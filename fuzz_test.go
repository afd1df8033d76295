package volsim_test

import (
	"go/ast"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestFuzzTargetsAreListed compares the targets that "make fuzz" runs with those in the sources.
func TestFuzzTargetsAreListed(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	var want []string
	for _, s := range sources(t) {
		for _, declared := range s.file.Decls {
			if f, is := declared.(*ast.FuncDecl); is && s.test && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				want = append(want, "./"+s.folder+" "+f.Name.Name)
			}
		}
	}
	out, err := exec.Command(sh, "tools/fuzz.sh", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) || len(want) == 0 {
		t.Errorf("tools/fuzz.sh lists %q, the sources have %q", got, want)
	}
}
