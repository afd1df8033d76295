package sanity

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Time limits for starting and stopping the program.
const (
	startTimeout = 20 * time.Second
	stopTimeout  = 40 * time.Second
)

// A subject is a driver under test.
type subject struct {
	name  string
	kind  string   // of "volsim driver"
	flags []string // in addition to endpoint and directories
	// onDevices reports whether the driver uses real devices: it requires root, and is checked for
	// leaks.
	onDevices bool
	// block makes the specs use block volumes.
	block bool
	// modify are the mutable parameters of volumes.
	modify map[string]string
	// skips maps csi-test's messages to reasons for skipping specs.
	skips map[string]string

	config *sanity.TestConfig
	base   string // directory of the driver's files
}

// missing returns what the driver lacks on this machine, or "".
func (s *subject) missing() string {
	switch {
	case !s.onDevices:
		return ""
	case !isRoot():
		return "real devices require root"
	}
	if s.kind == "lvm" {
		if _, err := exec.LookPath("lvm"); err != nil {
			return "program lvm not found: install lvm2"
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "no loop devices: " + err.Error()
	}
	return ""
}

// start starts the program and stops it at the end of the test.
func (s *subject) start(t *testing.T, program string) {
	t.Helper()
	s.base = t.TempDir()
	root := filepath.Join(s.base, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(s.base, "csi.sock")
	args := append([]string{"driver", s.kind, "--endpoint", "unix://" + socket, "--node-id", "node-1"}, s.flags...)
	if s.onDevices {
		args = append(args, "--state", filepath.Join(s.base, "state"), "--root", root)
	}
	log := &bytes.Buffer{}
	cmd := exec.Command(program, args...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		s.stop(t, cmd.Process, ended, socket)
		if t.Failed() {
			t.Logf("last output of %s:\n%s", s.name, last(log.String(), 100))
		}
	})
	config := sanity.NewTestConfig()
	config.Address = "unix:" + socket
	config.TargetPath, config.StagingPath = filepath.Join(root, "target"), filepath.Join(root, "staging")
	config.TestVolumeSize, config.TestVolumeExpandSize = 64*mebibyte, 96*mebibyte
	config.TestVolumeMutableParameters = s.modify
	config.TestNodeVolumeAttachLimit = true
	if s.block {
		config.TestVolumeAccessType = "block"
	}
	conn, err := grpc.NewClient(config.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if !s.onDevices {
		config.CheckPath = func(path string) (sanity.PathKind, error) { return askForPath(conn, path) }
	}
	s.config = &config
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if _, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("%s: not serving: %v", s.name, err)
	}
}

// stop stops the program and checks for leaks.
func (s *subject) stop(t *testing.T, process *os.Process, ended <-chan error, socket string) {
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("%s: stop: %v", s.name, err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("%s ended with %v", s.name, err)
		}
	case <-time.After(stopTimeout):
		t.Errorf("%s: not ended %v after SIGTERM", s.name, stopTimeout)
		_ = process.Kill()
		<-ended
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: leaked socket: %v", s.name, err)
	}
	s.clean(t)
}

// clean removes mounts and loop devices below the subject's directory. Each one is an error.
func (s *subject) clean(t *testing.T) {
	if !s.onDevices {
		return
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(table)) {
		if place := strings.Fields(line)[4]; strings.HasPrefix(place, s.base+"/") {
			t.Errorf("%s: leaked mount %s; unmounting: %v", s.name, place, exec.Command("umount", place).Run())
		}
	}
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(backing), s.base+"/") {
			continue // unrelated or already detached
		}
		device := "/dev/" + strings.Split(file, "/")[3]
		t.Errorf("%s: leaked loop device %s; detaching: %v", s.name, device, exec.Command("losetup", "-d", device).Run())
	}
	left, err := os.ReadDir(filepath.Join(s.base, "state", "volumes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, each := range left {
		t.Errorf("%s: leaked %s", s.name, each.Name())
	}
}

// askForPath asks a driver with in-memory mounts whether one of its volumes is mounted at a path.
func askForPath(conn *grpc.ClientConn, path string) (sanity.PathKind, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	all, err := csi.NewControllerClient(conn).ListVolumes(ctx, &csi.ListVolumesRequest{})
	if err != nil {
		return "", err
	}
	for _, each := range all.GetEntries() {
		_, err := csi.NewNodeClient(conn).NodeGetVolumeStats(ctx,
			&csi.NodeGetVolumeStatsRequest{VolumeId: each.GetVolume().GetVolumeId(), VolumePath: path})
		switch status.Code(err) {
		case codes.OK:
			return sanity.PathIsDir, nil
		case codes.NotFound:
		default:
			return "", err
		}
	}
	return sanity.PathIsNotFound, nil
}

// last returns the last lines of a text.
func last(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
