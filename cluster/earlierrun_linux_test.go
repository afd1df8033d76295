package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
)

// The environment of the process that is killed: what backs its volumes, and its directory.
const (
	killedDevices = "VOLSIM_TEST_KILLED_DEVICES"
	killedDir     = "VOLSIM_TEST_KILLED_DIR"
	killedNoDisks = "VOLSIM_TEST_KILLED_NO_DISKS" // not empty: its nodes have no disks
	killedGroups  = "VOLSIM_TEST_KILLED_GROUPS"   // not empty: it has local storage
)

// needDevices skips a test that cannot have its devices.
func needDevices(t *testing.T, devices cluster.Devices) {
	t.Helper()
	probe := map[cluster.Devices]func() error{cluster.Loop: loop.Probe, cluster.LVM: lvm.Probe}[devices]
	if err := probe(); err != nil {
		t.Skip(err)
	}
}

// eachRealDevices runs a test on loop devices and on volume groups.
func eachRealDevices(t *testing.T, test func(t *testing.T, devices cluster.Devices)) {
	t.Helper()
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		t.Run(string(devices), func(t *testing.T) {
			needDevices(t, devices)
			test(t, devices)
		})
	}
}

// TestRunUntilKilled is the process that startKilled kills. On its own it does nothing.
func TestRunUntilKilled(t *testing.T) {
	devices := cluster.Devices(os.Getenv(killedDevices))
	if devices == "" {
		t.Skip("for other tests")
	}
	groups := os.Getenv(killedGroups) != ""
	c, err := cluster.New(cluster.Config{Devices: devices, Dir: os.Getenv(killedDir), LocalStorage: groups})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(c.Start(ctx), useVolumes(ctx, c)); err != nil {
		t.Fatal(err)
	}
	if groups {
		if err := useGroups(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv(killedNoDisks) == "" {
		if err := useDisks(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.WriteFile("default", "web", "data", "secret", []byte("of the first cluster")); err != nil {
		t.Fatal(err)
	}
	fmt.Println("volume:", volumeOf(c))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// useVolumes creates a claim and a pod that uses it, and the same for a raw block volume. Both pods are on
// node-1.
func useVolumes(ctx context.Context, c *cluster.Cluster) error {
	claim, pod := cluster.NewClaim("raw", "16Mi"), cluster.NewPod("raw", "raw")
	mode := corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &mode
	pod.Spec.Containers[0].VolumeMounts = nil
	pod.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
	claims := c.Client().CoreV1().PersistentVolumeClaims("default")
	_, err := claims.Create(ctx, cluster.NewClaim("data", "16Mi"), metav1.CreateOptions{})
	if _, errRaw := claims.Create(ctx, claim, metav1.CreateOptions{}); err == nil {
		err = errRaw
	}
	for _, each := range []*corev1.Pod{cluster.NewPod("web", "data"), pod} {
		each.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "node-1"}
		if err == nil {
			_, err = c.Client().CoreV1().Pods("default").Create(ctx, each, metav1.CreateOptions{})
		}
	}
	for _, name := range []string{"web", "raw"} {
		if err == nil {
			err = c.WaitForPod(ctx, "default", name, corev1.PodRunning)
		}
	}
	return err
}

// useDisks gives node-2 a RAM disk and two block devices, and creates pods that use them.
func useDisks(ctx context.Context, c *cluster.Cluster) error {
	modes := map[string]string{"ram": "Filesystem", "formatted": "Filesystem", "device": "Block"}
	for name, mode := range modes {
		disk := cluster.Disk{Path: "/mnt/" + name, SizeBytes: 16 << 20, Block: name != "ram"}
		if err := c.AddDisk("node-2", disk); err != nil {
			return err
		}
		if err := c.Apply(ctx, localDisk(name, disk.Path, mode)); err != nil {
			return err
		}
	}
	for name := range modes {
		if err := c.WaitForPod(ctx, "default", name, corev1.PodRunning); err != nil {
			return err
		}
	}
	return nil
}

// volumeOf returns the name of the volume of claim data.
func volumeOf(c *cluster.Cluster) string {
	claim, ok := c.Server().Get("persistentvolumeclaims", "default", "data")
	if !ok {
		return ""
	}
	return claim.(*corev1.PersistentVolumeClaim).Spec.VolumeName
}

// runUntilKilled returns the process of TestRunUntilKilled, which ends with this one.
func runUntilKilled(t *testing.T, devices cluster.Devices, dir string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^TestRunUntilKilled$")
	command.Env = append(os.Environ(), killedDevices+"="+string(devices), killedDir+"="+dir)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if command.Process != nil {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	})
	return command
}

// startKilled starts a process with a cluster whose volumes are in use, and returns the name of the volume of claim data.
// kill ends it as SIGKILL does.
func startKilled(t *testing.T, devices cluster.Devices, dir string) (volume string, kill func() *exec.Cmd) {
	t.Helper()
	return waitForVolume(t, runUntilKilled(t, devices, dir))
}

// waitForVolume works like startKilled for a given process.
func waitForVolume(t *testing.T, command *exec.Cmd) (volume string, kill func() *exec.Cmd) {
	t.Helper()
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stdout)
	for said.Scan() {
		if name, ok := strings.CutPrefix(said.Text(), "volume: "); ok {
			return name, func() *exec.Cmd {
				if err := command.Process.Kill(); err != nil {
					t.Error(err)
				}
				_ = command.Wait()
				return command
			}
		}
		t.Log(said.Text())
	}
	t.Fatal("the process did not come so far")
	return "", nil
}

// clearAway removes what a test that failed has left below a directory.
func clearAway(t *testing.T, dir string) {
	t.Helper()
	t.Cleanup(func() {
		table, _ := os.ReadFile("/proc/self/mountinfo")
		for range 3 {
			for line := range strings.Lines(string(table)) {
				if place := strings.Fields(line)[4]; strings.HasPrefix(place, dir+"/") {
					_ = exec.Command("fsfreeze", "-u", place).Run()
					_ = syscall.Unmount(place, 0)
				}
			}
			files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
			for _, f := range files {
				if backing, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(backing), dir+"/") {
					_ = exec.Command("losetup", "-d", "/dev/"+strings.Split(f, "/")[3]).Run()
				}
			}
		}
	})
}

// mountsBelow returns the mount points below a directory.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	rows, err := mountinfo.GetMounts(mountinfo.PrefixFilter(dir))
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, row := range rows {
		places = append(places, row.Mountpoint)
	}
	return places
}

// startAgain starts a cluster in a directory and checks that it has nothing of the cluster before, whose volume is given.
func startAgain(t *testing.T, devices cluster.Devices, dir, before string) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cluster.Config{Devices: devices, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := errors.Join(c.Start(ctx), useVolumes(ctx, c)); err != nil {
		t.Fatal(err)
	}
	if now := volumeOf(c); now == before || now == "" {
		t.Errorf("the volume is %q, as in the cluster before", now)
	}
	if data, err := c.ReadFile("default", "web", "data", "secret"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a new volume holds %q, %v", data, err)
	}
	return c
}

// wantCleared checks what a cluster says of an earlier run with two volumes in use.
func wantCleared(t *testing.T, c *cluster.Cluster, devices cluster.Devices, dir string, process *os.Process) {
	t.Helper()
	// The raw volume has three mounts, and a loop device that locks it. Of the disks, the block devices
	// have a mount and a loop device each, and the raw one a lock.
	what := "2 volumes, 6 loop devices and 12 mounts"
	if devices == cluster.LVM {
		what = "2 volume groups, 6 loop devices and 12 mounts"
	}
	want := []string{fmt.Sprintf("removed %s of an earlier run in %s (process %d, not running)", what, dir, process.Pid)}
	if diff := cmp.Diff(want, c.Cleared()); diff != "" {
		t.Errorf("cleared (-want +got):\n%s", diff)
	}
}

// TestKilledRunIsCleared starts a cluster in the directory of one that was killed: nothing of it is handed on, and
// nothing is left in the end.
func TestKilledRunIsCleared(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir := t.TempDir()
		clearAway(t, dir)
		volume, kill := startKilled(t, devices, dir)
		killed := kill()
		c := startAgain(t, devices, dir, volume)
		wantCleared(t, c, devices, dir, killed.Process)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	})
}

// TestKilledTemporaryRunIsCleared kills a cluster in a temporary directory. The next one in another clears it, and
// neither that of a running process nor what only has such a name.
func TestKilledTemporaryRunIsCleared(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		temporary := t.TempDir()
		clearAway(t, temporary)
		t.Setenv("TMPDIR", temporary)
		volume, kill := startKilled(t, devices, "")
		killedIn, err := filepath.Glob(filepath.Join(temporary, "volsim-cluster-*"))
		if err != nil || len(killedIn) != 1 {
			t.Fatalf("temporary directories: %v, %v", killedIn, err)
		}
		killed := kill()
		runningIn := filepath.Join(temporary, "volsim-cluster-running")
		clearAway(t, runningIn)
		if err := os.Mkdir(runningIn, 0o700); err != nil {
			t.Fatal(err)
		}
		_, killRunning := startKilled(t, devices, runningIn)
		for _, name := range []string{"volsim-cluster-new", "volsim-cluster-other/volumes", "volsim-123/volumes"} {
			if err := os.MkdirAll(filepath.Join(temporary, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		running := mountsBelow(t, runningIn)

		c := startAgain(t, devices, "", volume)
		wantCleared(t, c, devices, killedIn[0], killed.Process)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(running, mountsBelow(t, runningIn)); diff != "" || len(running) == 0 {
			t.Errorf("mounts of the running cluster (-before +now):\n%s", diff)
		}
		left, err := filepath.Glob(filepath.Join(temporary, "volsim-*"))
		want := []string{"volsim-123", "volsim-cluster-new", "volsim-cluster-other", "volsim-cluster-running"}
		for i := range want {
			want[i] = filepath.Join(temporary, want[i])
		}
		if diff := cmp.Diff(want, left); diff != "" || err != nil {
			t.Errorf("temporary directories (-want +got): %v\n%s", err, diff)
		}
		killRunning()
		if c, err := cluster.New(cluster.Config{Devices: devices}); err != nil {
			t.Error(err)
		} else if err := c.Close(); err != nil || len(c.Cleared()) != 1 {
			t.Errorf("cleared %v, %v", c.Cleared(), err)
		}
	})
}

// TestRunningClusterKeepsItsDirectory starts a second cluster in the directory of a running one, of another process and
// of this one.
func TestRunningClusterKeepsItsDirectory(t *testing.T) {
	needDevices(t, cluster.Loop)
	dir := t.TempDir()
	clearAway(t, dir)
	_, kill := startKilled(t, cluster.Loop, dir)
	before := mountsBelow(t, dir)
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		c, err := cluster.New(cluster.Config{Devices: devices, Dir: dir})
		if err == nil {
			t.Fatal("a second cluster", c.Close())
		}
		if !strings.Contains(err.Error(), fmt.Sprintf("directory %q is in use by volsim, process ", dir)) {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(before, mountsBelow(t, dir)); diff != "" {
		t.Errorf("mounts of the running cluster (-before +now):\n%s", diff)
	}
	kill()
	for range 2 { // the second after the first was closed
		c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Dir: dir}); err == nil {
			t.Error("a second cluster of this process", c.Close())
		} else if !strings.Contains(err.Error(), fmt.Sprintf("in use by volsim, process %d", os.Getpid())) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	}
}

// TestClearingIsExact has things of others around what a killed run left, and remains that are hard to remove.
func TestClearingIsExact(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir := t.TempDir()
		clearAway(t, dir)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		volume, kill := startKilled(t, devices, dir)
		// Others have a file, a directory with a mount, and a device over a file, next to those of the cluster.
		must(os.WriteFile(filepath.Join(dir, "notes"), []byte("mine"), 0o600))
		must(os.Mkdir(filepath.Join(dir, "node-1-backup"), 0o700))
		must(syscall.Mount("mine", filepath.Join(dir, "node-1-backup"), "tmpfs", 0, ""))
		must(os.WriteFile(filepath.Join(dir, "image"), make([]byte, 1<<20), 0o600))
		foreign, err := loopdev.Bind(t.Context(), filepath.Join(dir, "image"), "mine", false)
		must(err)
		// A pod has a device over a file in its volume.
		var mounted string
		for _, place := range mountsBelow(t, dir) {
			if strings.HasSuffix(place, "/mount") {
				mounted = place
			}
		}
		must(os.WriteFile(filepath.Join(mounted, "nested"), make([]byte, 1<<20), 0o600))
		_, err = loopdev.Bind(t.Context(), filepath.Join(mounted, "nested"), "pod's", false)
		must(err)
		kill()
		// The driver was killed while it copied a volume.
		if out, err := exec.Command("fsfreeze", "-f", mounted).CombinedOutput(); err != nil {
			t.Fatalf("fsfreeze: %v: %s", err, out)
		}

		c := startAgain(t, devices, dir, volume)
		must(c.Close())
		if data, err := os.ReadFile(filepath.Join(dir, "notes")); string(data) != "mine" {
			t.Errorf("notes: %q, %v", data, err)
		}
		if mounts := mountsBelow(t, dir); len(mounts) != 1 {
			t.Errorf("mounts: %v", mounts)
		}
		bound, err := loopdev.List(func(backing string) bool { return strings.HasPrefix(backing, dir+"/") })
		must(err)
		if len(bound) != 1 || bound[0].Device != foreign || bound[0].Mark != "mine" {
			t.Errorf("devices: %+v, want %s", bound, foreign)
		}
		must(syscall.Unmount(filepath.Join(dir, "node-1-backup"), 0))
		must(loopdev.Unbind(t.Context(), bound[0]))
		names, err := os.ReadDir(dir)
		must(err)
		if len(names) != 3 {
			t.Errorf("left: %v", names)
		}
	})
}

// TestRemainsThatCannotBeCleared has things of others where the killed run created its own. The start is refused
// and leaves them; when they are gone, it succeeds.
func TestRemainsThatCannotBeCleared(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir := t.TempDir()
		elsewhere := t.TempDir()
		clearAway(t, dir)
		clearAway(t, elsewhere)      // the mounts below a directory move with it
		t.Setenv(killedNoDisks, "1") // a node that is moved has no mounts
		volume, kill := startKilled(t, devices, dir)
		kill()
		refused := func(want string) {
			t.Helper()
			c, err := cluster.New(cluster.Config{Devices: devices, Dir: dir})
			if err == nil {
				t.Fatal("started", c.Close())
			}
			if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "earlier run in "+dir) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		// A program has a file of a volume open.
		var mounted string
		for _, place := range mountsBelow(t, dir) {
			if strings.HasSuffix(place, "/mount") {
				mounted = place
			}
		}
		open, err := os.Create(filepath.Join(mounted, "open"))
		if err != nil {
			t.Fatal(err)
		}
		refused("busy")
		if _, err := os.Stat(filepath.Join(mounted, "secret")); err != nil {
			t.Error(err)
		}
		open.Close()
		// A file, instead of a directory; and a link to another directory.
		place := filepath.Join(dir, "node-2")
		if err := os.Rename(place, filepath.Join(elsewhere, "node-2")); err != nil {
			t.Fatal(err)
		}
		for _, create := range []func() error{
			func() error { return os.WriteFile(place, nil, 0o600) },
			func() error { return os.Symlink(elsewhere, place) },
		} {
			if err := create(); err != nil {
				t.Fatal(err)
			}
			refused(place + " is not what a run creates there")
			if err := os.Remove(place); err != nil {
				t.Fatal(err)
			}
		}
		if devices == cluster.Loop {
			place := filepath.Join(dir, "volumes", "notes")
			if err := os.WriteFile(place, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			refused(place + " is not a file of volsim")
			if err := os.Remove(place); err != nil {
				t.Error(err)
			}
		}
		c := startAgain(t, devices, dir, volume)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	})
}

// TestProgramsOfAKilledRun kills a cluster when it starts a program. The program still does its work, while the next
// cluster begins.
func TestProgramsOfAKilledRun(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		for _, at := range []struct {
			tool string
			call int
		}{{"blkid", 1}, {"mkfs.ext4", 1}} {
			t.Run(fmt.Sprintf("%s-%d", at.tool, at.call), func(t *testing.T) {
				dir, tools := t.TempDir(), t.TempDir()
				clearAway(t, dir)
				real, err := exec.LookPath(at.tool)
				if err != nil {
					t.Fatal(err)
				}
				script := fmt.Sprintf("#!/bin/sh\necho >> %[1]s/calls\nif [ $(wc -l < %[1]s/calls) -eq %[2]d ]; then kill -9 $PPID; fi\nexec %[3]s \"$@\"\n",
					tools, at.call, real)
				if err := os.WriteFile(filepath.Join(tools, at.tool), []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
				killed := runUntilKilled(t, devices, dir)
				killed.Env = append(killed.Env, "PATH="+tools+":"+os.Getenv("PATH"))
				killed.Stderr = nil
				killed.WaitDelay = time.Second // the program keeps the output open
				if _, err := killed.CombinedOutput(); err == nil {
					t.Fatal("not killed")
				}
				if status, is := killed.ProcessState.Sys().(syscall.WaitStatus); !is || !status.Signaled() {
					t.Fatalf("not killed: %v", killed.ProcessState)
				}
				c := startAgain(t, devices, dir, "")
				if lines := c.Cleared(); len(lines) != 1 || !strings.HasPrefix(lines[0], "removed ") {
					t.Errorf("cleared %q", lines)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				nothingLeft(t, dir)
			})
		}
	})
}

// TestKilledInAnotherMountNamespace kills a cluster that had another path to its directory, as in a container. Its mounts end
// with it, as those of a mount namespace do. A real one would keep the mounts of tests that run at the same time.
func TestKilledInAnotherMountNamespace(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir, path := t.TempDir(), t.TempDir()
		clearAway(t, dir)
		clearAway(t, path)
		if err := errors.Join(syscall.Mount(dir, path, "", syscall.MS_BIND, ""), syscall.Mount("", path, "", syscall.MS_PRIVATE, "")); err != nil {
			t.Fatal(err)
		}
		bound := true
		unmount := func() {
			if !bound {
				return
			}
			bound = false
			if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		}
		t.Cleanup(unmount)
		volume, kill := waitForVolume(t, runUntilKilled(t, devices, path))
		if places := mountsBelow(t, dir); len(places) > 0 {
			t.Fatalf("mounts below the other path: %v", places)
		}
		kill()
		unmount()
		c := startAgain(t, devices, dir, volume)
		if lines := c.Cleared(); len(lines) != 1 || !strings.Contains(lines[0], " 6 loop devices") {
			t.Errorf("cleared %q", lines)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
		nothingLeft(t, path)
	})
}

// TestClusterThatCouldNotBeClosed closes a cluster while a volume is busy. The next one in the directory removes the rest.
func TestClusterThatCouldNotBeClosed(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		dir := t.TempDir()
		clearAway(t, dir)
		c := startAgain(t, devices, dir, "")
		volume := volumeOf(c)
		path, err := c.MountPath("default", "web", "data")
		if err != nil {
			t.Fatal(err)
		}
		open, err := os.Create(filepath.Join(path, "secret"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err == nil {
			t.Error("closed with a busy volume")
		}
		if c, err := cluster.New(cluster.Config{Devices: devices, Dir: dir}); err == nil {
			t.Error("started with a busy volume", c.Close())
		}
		open.Close()
		c = startAgain(t, devices, dir, volume)
		if lines := c.Cleared(); len(lines) != 1 || !strings.HasPrefix(lines[0], "removed ") {
			t.Errorf("cleared %q", lines)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, dir)
	})
}

// TestForeignFilesAreKept has files where the cluster would create its own, and no record of an earlier one.
func TestForeignFilesAreKept(t *testing.T) {
	eachRealDevices(t, func(t *testing.T, devices cluster.Devices) {
		names := []string{"node-2"}
		if devices == cluster.Loop {
			names = append(names, "volumes")
		} else {
			names = append(names, "disk-node-1", "lvm-node-2")
		}
		for _, name := range names {
			dir := t.TempDir()
			place := filepath.Join(dir, name)
			if err := os.Mkdir(place, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(place, "notes"), []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := cluster.New(cluster.Config{Devices: devices, Dir: dir})
			if err == nil {
				t.Fatal("started", c.Close())
			}
			if want := fmt.Sprintf("directory %q has %s, and no record of a run that created it", dir, name); !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if data, err := os.ReadFile(filepath.Join(place, "notes")); string(data) != "mine" {
				t.Errorf("notes: %q, %v", data, err)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
				t.Errorf("the directory has %v, %v", names, err)
			}
		}
	})
}
