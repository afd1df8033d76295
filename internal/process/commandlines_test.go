//go:build linux && (amd64 || arm64)

package process_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"testing"

	"github.com/volsim/volsim/internal/shell"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A commandLine is a row of the table that internal/shell executes, too.
type commandLine struct {
	Line, Stdout, Stderr string
	Code                 int32
	Differs              string  // why busybox has another result
	Busybox              *result // that one
}

// TestCommandLines executes what the tests of internal/shell execute, with the same results, and leaves the same files in
// the volumes.
func TestCommandLines(t *testing.T) {
	node, rows := newWorld(t), 0
	for line := range bytes.Lines(testcheck.Must(os.ReadFile("../shell/testdata/commandlines.jsonl"))) {
		rows++
		var row commandLine
		testcheck.NoError(t, json.Unmarshal(line, &row))
		w := node.part(t, fmt.Sprintf("pod-%d", rows))
		t.Run(row.Line, func(t *testing.T) {
			t.Parallel()
			want := result{row.Stdout, row.Stderr, row.Code}
			if (row.Busybox != nil) != (row.Differs != "") {
				t.Error("the reason of a difference is missing, or the difference")
			}
			if row.Busybox != nil {
				want = *row.Busybox
			}
			testcheck.Equal(t, "result", want, w.finish(t, w.shell(row.Line)))
			testcheck.Equal(t, "files", filesOfShell(t, row.Line), filesOf(testcheck.Must(nodefs.NewReal(w.root)), w.root))
		})
	}
	if rows < 100 {
		t.Errorf("%d rows", rows)
	}
}

// filesOfShell returns the files that a script leaves in the volumes if internal/shell executes it.
func filesOfShell(t *testing.T, script string) []string {
	t.Helper()
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	disk := nodefs.NewMemory("/node")
	testcheck.NoError(t, disk.MkdirAll("/node/a"), disk.MkdirAll("/node/b"), disk.MkdirAll("/node/secret"))
	containers := host.Process("containers")
	var runtime *shell.Runtime
	testcheck.NoError(t, containers.SetUp(func() error {
		runtime = shell.New(shell.Config{Process: containers, FS: disk, Root: "/node/containers"})
		return nil
	}))
	host.Start()
	s := (&world{root: "/node", pod: "pod"}).shell(script)
	runtime.Start(s)
	testcheck.NoError(t, host.Wait(t.Context(), "end of the run", func() bool { return runtime.State(s.Run).Exited }))
	return filesOf(disk, "/node")
}

// filesOf returns the entries of the two volumes, with their modes, owners and contents.
func filesOf(disk nodefs.FS, root string) []string {
	var files []string
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range testcheck.Must(disk.ReadDir(path.Join(root, dir))) {
			at := path.Join(dir, name)
			full := path.Join(root, at)
			info := testcheck.Must(disk.Stat(full))
			entry := fmt.Sprintf("%s %v %d:%d ", at, info.Mode, info.UID, info.GID)
			switch {
			case info.Mode&fs.ModeSymlink != 0:
				entry += testcheck.Must(disk.Readlink(full))
			case info.Mode.IsRegular():
				entry += fmt.Sprintf("%q", testcheck.Must(disk.ReadFile(full)))
			}
			if at == "a/nested" { // the mount point
				continue
			}
			files = append(files, entry)
			if info.Mode.IsDir() {
				walk(at)
			}
		}
	}
	walk("a")
	walk("b")
	return files
}
