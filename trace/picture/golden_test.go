package picture_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/trace/picture"
)

var update = flag.Bool("update", false, "write the pictures to testdata")

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

func TestPictures(t *testing.T) {
	for name, r := range runs(t) {
		d := picture.SpaceTime(r.records, r.options)
		golden(t, name+".svg", string(d.SVG()))
	}
}

func TestWords(t *testing.T) {
	all := runs(t)
	for _, name := range []string{"old-list", "conflict", "kubelet-crash"} {
		d := picture.SpaceTime(all[name].records, all[name].options)
		golden(t, name+".txt", d.Text())
		golden(t, name+".mmd", d.Mermaid())
	}
}
