//go:build linux && (amd64 || arm64)

package process_test

import (
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

func TestCommands(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         result
	}{
		{"output", "echo out; echo err >&2; exit 3", result{"out\n", "err\n", 3}},
		{"signal", "kill -9 $$; kill -TERM $$; echo alive", ok("alive\n")},
		{"processes", "echo $$; hostname; id -u", ok("1\nweb-0\n0\n")},
		{"volume", "echo x >/a/f; echo y >/a/nested/f; cat /a/f /ro/f", ok("x\ny\n")},
		{"read-only volume", "echo x >/ro/f", result{"", "sh: can't create /ro/f: Read-only file system\n", 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			testcheck.Equal(t, "result", c.want, w.finish(t, w.shell(c.script)))
		})
	}
}

