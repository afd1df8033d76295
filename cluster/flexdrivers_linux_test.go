package cluster_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/loop"
)

// flexScript is a driver whose volumes are directories next to its program, and which records its
// calls.
const flexScript = `#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/calls"
case "$1" in
init) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;
mount) mkdir -p "$here/volume" && mount --bind "$here/volume" "$2" && echo '{"status": "Success"}' ;;
unmount) umount "$2" && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
`

// installFlexScript installs an executable on a machine in one step.
func installFlexScript(t *testing.T, m hostpath.Machine, name, script string) (dir string) {
	t.Helper()
	dir = m.Path(flexvolume.Dir + "/example.com~" + name)
	testcheck.NoError(t, os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, ".new"), []byte(script), 0o755), //nolint:gosec // a program
		os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
	return dir
}

func TestFlexVolumeOfAnExecutable(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	c := start(t, cluster.Config{Nodes: 1, Devices: cluster.Loop})
	m, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	dir := installFlexScript(t, m, "disk", flexScript)
	testcheck.NoError(t, c.Apply(t.Context(), flexPod))
	writeAndDelete(t, c)
	data, err := os.ReadFile(filepath.Join(dir, "volume", "file"))
	if err != nil || string(data) != "kept" {
		t.Errorf("on the node: %q, %v", data, err)
	}
	if err := c.InstallFlexDriver("node-1", flexDriver, nil); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a function on a real disk: %v, want an error with the place", err)
	}
}

// slowScript is flexScript, but hangs when it mounts the volume "slow".
var slowScript = strings.Replace(flexScript, `case "$1" in`,
	`case "$1$3" in mount*'pvOrVolumeName":"slow"'*) sleep 1000 & echo $! > "$here/hung"; wait ;; esac
case "$1" in`, 1)

// TestExecutableHangs has a program hang for one volume. Its other volumes, and drivers installed
// later, work. The end of the cluster ends the program.
func TestExecutableHangs(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	c, err := cluster.New(cluster.Config{Nodes: 1, Devices: cluster.Loop})
	testcheck.NoError(t, err)
	closed := false
	defer func() {
		if !closed {
			_ = c.Close()
		}
	}()
	ctx := t.Context()
	testcheck.NoError(t, c.Start(ctx))
	m, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	dir := installFlexScript(t, m, "disk", slowScript)
	slow := strings.NewReplacer("name: data", "name: slow", "name: web", "name: stuck").Replace(flexPod)
	testcheck.NoError(t, c.Apply(ctx, slow), c.Wait(ctx, "the hung program", func() bool {
		_, err := os.Stat(filepath.Join(dir, "hung"))
		return err == nil
	}), c.Apply(ctx, flexPod))
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	installFlexScript(t, m, "other", flexScript)
	later := strings.NewReplacer("com/disk", "com/other", "name: web", "name: later").Replace(flexPod)
	testcheck.NoError(t, c.Apply(ctx, later), c.WaitForPod(ctx, "default", "later", corev1.PodRunning))
	pid, err := os.ReadFile(filepath.Join(dir, "hung"))
	testcheck.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	testcheck.NoError(t, err)
	closed = true
	testcheck.NoError(t, c.Close())
	process, err := unix.PidfdOpen(child, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	testcheck.NoError(t, err)
	defer unix.Close(process) //nolint:errcheck // only read
	ended := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 10_000); n != 1 || err != nil {
		t.Errorf("child %d is alive: %v", child, err)
	}
}
