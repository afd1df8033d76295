package loopdev_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/volsim/volsim/internal/loopdev"
)

// TestFileOfAnotherMountNamespace has a device over a file of another mount namespace. There it has the path of a file here.
func TestFileOfAnotherMountNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: loop devices and a mount namespace")
	}
	for _, needed := range []string{loopdev.ControlNode, "/usr/bin/unshare"} {
		if _, err := os.Stat(needed); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "disk")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	listed := func() []string {
		t.Helper()
		bound, err := loopdev.List(func(backing string) bool { return backing == file })
		if err != nil {
			t.Fatal(err)
		}
		var devices []string
		for _, each := range bound {
			devices = append(devices, each.Device)
		}
		return devices
	}
	script := fmt.Sprintf("mount -t tmpfs none %s && truncate -s 1M %s && losetup -f --show %s && read end", dir, file, file)
	other := exec.Command("unshare", "-m", "sh", "-c", script)
	other.Stderr = os.Stderr
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stdout)
	said.Scan()
	device := said.Text()
	defer func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			t.Errorf("losetup -d %s: %v: %s", device, err, out)
		}
		stdin.Close()
		_ = other.Wait()
	}()
	if bound, err := loopdev.At(device); err != nil || bound.BackingFile != file {
		t.Fatalf("the other device is %+v, %v", bound, err)
	}
	if over, err := loopdev.Over(file); err != nil || len(over) > 0 {
		t.Errorf("over the file here: %+v, %v", over, err)
	}
	if got := listed(); len(got) > 0 {
		t.Errorf("%v, over a file of another mount namespace", got)
	}
	own, err := loopdev.Bind(t.Context(), file, "own", false)
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(); len(got) != 1 || got[0] != own {
		t.Errorf("%v, want %s", got, own)
	}
	// The file has another path too.
	elsewhere := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.Link(file, elsewhere); err != nil {
		t.Fatal(err)
	}
	if over, err := loopdev.Over(elsewhere); err != nil || len(over) != 1 || over[0].Device != own {
		t.Errorf("over the file here: %+v, %v", over, err)
	}
	bound, err := loopdev.At(own)
	if err == nil {
		err = loopdev.Unbind(t.Context(), bound)
	}
	if err != nil {
		t.Error(err)
	}
}
