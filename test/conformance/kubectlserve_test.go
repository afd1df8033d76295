package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/loopdev"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
)

// volumesOfProgram is a cluster of the program "volsim serve" on devices of this machine. The test
// finds the volumes below the directories of the nodes.
type volumesOfProgram struct {
	dir      string // of the cluster
	disk     nodefs.FS
	api      kubernetes.Interface
	process  *exec.Cmd
	stderr   *strings.Builder
	output   *bufio.Scanner
	undo     []func() error // removes the disks of the nodes, the last one first
	diskRoot string         // of the files behind the disks
}

// startServe starts "volsim serve" with further arguments. The test is skipped if the machine has no such devices.
func startServe(t *testing.T, program string, devices cluster.Devices, args ...string) *volumesOfProgram {
	// A cluster of this process reports why the machine has no such devices.
	if w, err := cluster.New(cluster.Config{Devices: devices, Nodes: 1}); err != nil {
		t.Skip(err)
	} else if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w := &volumesOfProgram{dir: t.TempDir(), diskRoot: t.TempDir(), stderr: &strings.Builder{}}
	var err error
	if w.disk, err = nodefs.NewReal(w.dir); err != nil {
		t.Fatal(err)
	}
	w.process = exec.Command(program, append([]string{
		"serve", "--devices", string(devices), "--dir", w.dir, "--kubeconfig", w.config(), "--page", "off",
	}, args...)...)
	w.process.Stderr = w.stderr
	stdout, err := w.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.process.Start(); err != nil {
		t.Fatal(err)
	}
	w.output = bufio.NewScanner(stdout)
	for w.output.Scan() {
		if w.output.Text() == "stop with Ctrl-C" {
			cfg, err := clientcmd.BuildConfigFromFlags("", w.config())
			if err == nil {
				w.api, err = kubernetes.NewForConfig(cfg)
			}
			if err != nil {
				t.Fatal(errors.Join(err, w.close()))
			}
			return w
		}
	}
	t.Fatalf("volsim serve: %v\n%s", w.process.Wait(), w.stderr)
	return nil
}

func (w *volumesOfProgram) config() string { return filepath.Join(w.diskRoot, "kubeconfig") }

func (w *volumesOfProgram) machine(node string) hostpath.Machine {
	return hostpath.Machine{FS: w.disk, Root: filepath.Join(w.dir, node)}
}

func (w *volumesOfProgram) exports() hostpath.Machine { return w.machine("nfs") }

// addDisk gives a node a disk, as its administrator would.
func (w *volumesOfProgram) addDisk(node string, disk cluster.Disk) error {
	at := w.machine(node).Path(disk.Path)
	if !disk.Block {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		w.undo = append(w.undo, func() error { return unix.Unmount(at, 0) })
		return unix.Mount("disk", at, "tmpfs", 0, fmt.Sprintf("size=%d", disk.SizeBytes))
	}
	image := filepath.Join(w.diskRoot, filepath.Base(disk.Path))
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, disk.SizeBytes), os.MkdirAll(filepath.Dir(at), 0o755)); err != nil {
		return err
	}
	device, err := loopdev.Bind(context.Background(), image, "volsim:test", false)
	if err != nil {
		return err
	}
	bound, err := loopdev.At(device)
	if err != nil {
		return err
	}
	w.undo = append(w.undo, func() error { return loopdev.Unbind(context.Background(), bound) })
	var stat unix.Stat_t
	if err := unix.Stat(device, &stat); err != nil {
		return err
	}
	return unix.Mknod(at, unix.S_IFBLK|0o600, int(stat.Rdev))
}

// flexScript is a FlexVolume driver whose volume is a directory next to the program.
const flexScript = `#!/bin/sh
here=$(dirname "$0")
case "$1" in
init) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;
mount) mkdir -p "$here/volume" && mount --bind "$here/volume" "$2" && echo '{"status": "Success"}' ;;
unmount) umount "$2" && echo '{"status": "Success"}' ;;
*) echo '{"status": "Not supported"}'; exit 1 ;;
esac
`

// installFlexDriver installs the FlexVolume driver example.com/directory.
func (w *volumesOfProgram) installFlexDriver(node string) error {
	dir := w.machine(node).Path(flexvolume.Dir + "/example.com~directory")
	return errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, ".new"), []byte(flexScript), 0o755),
		os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "directory")))
}

func (w *volumesOfProgram) mountPath(v kubectlVolume) (nodefs.FS, string, error) {
	at, err := w.find(v, "volumes")
	if err == nil && filepath.Base(filepath.Dir(at)) == "kubernetes.io~csi" {
		at = filepath.Join(at, "mount")
	}
	return w.disk, at, err
}

func (w *volumesOfProgram) checkDevice(v kubectlVolume) error {
	at, err := w.find(v, "volumeDevices")
	if err != nil {
		return err
	}
	info, err := os.Stat(at)
	if err == nil && info.Mode()&os.ModeDevice == 0 {
		err = fmt.Errorf("%s: %v", at, info.Mode())
	}
	return err
}

// find returns where a pod has its volume: the only entry of its directory of volumes. hostPath
// volumes have none.
func (w *volumesOfProgram) find(v kubectlVolume, kind string) (string, error) {
	ctx := context.Background()
	pod, err := w.api.CoreV1().Pods("default").Get(ctx, v.pod, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	node := w.machine(pod.Spec.NodeName)
	found, err := filepath.Glob(node.Path("/var/lib/kubelet/pods/" + string(pod.UID) + "/" + kind + "/*/*"))
	switch {
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", fmt.Errorf("several volumes: %v", found)
	}
	directory := pod.Spec.Volumes[0].HostPath
	if claim := pod.Spec.Volumes[0].PersistentVolumeClaim; claim != nil {
		var volume *corev1.PersistentVolume
		if volume, err = w.api.CoreV1().PersistentVolumes().Get(ctx, claim.ClaimName, metav1.GetOptions{}); err != nil {
			return "", err
		}
		directory = volume.Spec.HostPath
	}
	if directory == nil {
		return "", fmt.Errorf("no volume below %s", node.Path("/var/lib/kubelet/pods/"+string(pod.UID)))
	}
	return node.Path(directory.Path), nil
}

// close ends the program, which removes what it has made, and checks that it has.
func (w *volumesOfProgram) close() error {
	left, err := filepath.Glob(filepath.Join(w.dir, "node-*/var/lib/kubelet/pods/*/volume*/*/*"))
	if len(left) > 0 {
		err = errors.Join(err, fmt.Errorf("volumes of pods left: %v", left))
	}
	for i := len(w.undo) - 1; i >= 0; i-- {
		err = errors.Join(err, w.undo[i]())
	}
	err = errors.Join(err, w.process.Process.Signal(os.Interrupt))
	for w.output.Scan() {
	}
	if ended := w.process.Wait(); ended != nil {
		err = errors.Join(err, fmt.Errorf("volsim serve: %w\n%s", ended, w.stderr))
	}
	mounts, mountsErr := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), " "+w.dir) {
		err = errors.Join(err, fmt.Errorf("mounts left below %s:\n%s", w.dir, mounts))
	}
	devices, devicesErr := loopdev.List(func(backing string) bool {
		return strings.HasPrefix(backing, w.dir) || strings.HasPrefix(backing, w.diskRoot)
	})
	if len(devices) > 0 {
		err = errors.Join(err, fmt.Errorf("loop devices left: %v", devices))
	}
	return errors.Join(err, mountsErr, devicesErr)
}
