package nodefs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// programScript is a program as an executable; program is the same as a function.
const programScript = `#!/bin/sh
case "$1" in
fail) echo "no $2"; exit 3 ;;
much) head -c 3000000 /dev/zero ;;
hang) sleep 1000 & echo $!; wait ;;
*) echo "$@"; echo error >&2 ;;
esac
`

func program(_ context.Context, args ...string) ([]byte, error) {
	switch args[0] {
	case "fail":
		return []byte("no " + args[1] + "\n"), errors.New("exit status 3")
	case "much":
		return make([]byte, 3_000_000), nil
	default:
		return []byte(strings.Join(args, " ") + "\nerror\n"), nil
	}
}

// writeScript writes an executable. No other process of this machine has it open afterwards, unless
// another test has just forked.
func writeScript(t *testing.T, file string) {
	t.Helper()
	testcheck.NoError(t, os.WriteFile(file, []byte(programScript), 0o755)) //nolint:gosec // a program
}

// TestRun is not parallel: a file that was open for writing when another test forked cannot be
// executed.
func TestRun(t *testing.T) {
	memory := nodefs.NewMemory("/node")
	testcheck.NoError(t, memory.WriteProgram("/node/program", program))
	disks := map[string]nodefs.FS{"/node": memory}
	if root := filepath.Join(t.TempDir(), "node"); true {
		real, err := nodefs.NewReal(root)
		if err == nil {
			writeScript(t, filepath.Join(root, "program"))
			disks[root] = real
		}
	}
	for root, disk := range disks {
		testcheck.NoError(t, disk.WriteFile(root+"/file", []byte("#!/bin/sh\n")), disk.MkdirAll(root+"/dir"),
			disk.WriteFile(root+"/text", []byte("text")), disk.Chmod(root+"/text", 0o755),
			disk.Symlink("program", root+"/link"))
		for _, tt := range []struct {
			name string
			args []string
			out  string
			err  error  // that the error matches
			text string // of the error
		}{
			{name: "program", args: []string{"a", "b c"}, out: "a b c\nerror\n"},
			{name: "link", args: []string{"a"}, out: "a\nerror\n"},
			{name: "program", args: []string{"fail", "disk"}, out: "no disk\n", text: "exit status 3"},
			{
				name: "program", args: []string{"much"}, out: string(make([]byte, 1<<20)),
				text: "exec " + root + "/program: output exceeds 1048576 bytes",
			},
			{name: "none", err: fs.ErrNotExist},
			{name: "file", err: fs.ErrPermission},
			{name: "dir", err: fs.ErrPermission},
			{name: "text", err: syscall.ENOEXEC},
			{name: "../program", err: nodefs.ErrOutside},
		} {
			out, err := disk.Run(t.Context(), root+"/"+tt.name, tt.args...)
			if string(out) != tt.out {
				t.Errorf("%T: %s %q printed %d bytes, %.20q, want %d bytes", disk, tt.name, tt.args, len(out), out, len(tt.out))
			}
			switch {
			case tt.err != nil && !errors.Is(err, tt.err), tt.text != "" && (err == nil || err.Error() != tt.text),
				tt.err == nil && tt.text == "" && err != nil:
				t.Errorf("%T: %s %q: error %v, want %v%s", disk, tt.name, tt.args, err, tt.err, tt.text)
			}
		}
	}
}

// TestProgramIsReplaced replaces a program by another, and by a file.
func TestProgramIsReplaced(t *testing.T) {
	disk := nodefs.NewMemory("/")
	says := func(text string) func(context.Context, ...string) ([]byte, error) {
		return func(context.Context, ...string) ([]byte, error) { return []byte(text), nil }
	}
	for _, want := range []string{"one", "two"} {
		testcheck.NoError(t, disk.WriteProgram("/program", says(want)))
		if out, err := disk.Run(t.Context(), "/program"); err != nil || string(out) != want {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	}
	testcheck.NoError(t, disk.WriteFile("/program", nil))
	if _, err := disk.Run(t.Context(), "/program"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file: %v, want fs.ErrPermission", err)
	}
	testcheck.NoError(t, disk.MkdirAll("/dir"))
	if err := disk.WriteProgram("/dir", says("")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a directory is replaced: %v", err)
	}
}
