package picture_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

var update = flag.Bool("update", false, "write the pictures to testdata")

// kinds holds the types of pictures by the suffixes of their files.
var kinds = map[string]func([]trace.Record, picture.Options) *picture.Drawing{
	"space-time": picture.SpaceTime, "sequence": picture.Sequence, "timeline": picture.Timeline, "states": picture.States,
}

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
	all := runs(t)
	for _, name := range []string{"old-list", "held-delivery", "conflict", "lost-create", "pod-moves"} {
		for kind, draw := range kinds {
			golden(t, name+"."+kind+".svg", string(draw(all[name].records, all[name].options).SVG()))
		}
	}
	for kind, draw := range kinds {
		d := draw(all["lost-create"].records, all["lost-create"].options)
		golden(t, "lost-create."+kind+".txt", d.Text())
		golden(t, "lost-create."+kind+".mmd", d.Mermaid())
	}
}
