package nfs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/guest"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// inGuest is set in the environment of the tests that run in a guest.
const inGuest = "NFS_TEST_IN_GUEST"

func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}

// TestRealServer mounts from an NFS server in a guest whose kernel is client and server.
func TestRealServer(t *testing.T) {
	if os.Getenv(inGuest) != "" {
		useRealServer(t)
		return
	}
	program, err := os.Executable()
	testcheck.NoError(t, err)
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	err = guest.Run(ctx, guest.Config{
		Modules: []string{"nfsd", "nfsv4"}, Env: append(os.Environ(), inGuest+"=1"), Stdout: &out, Stderr: &out,
	}, program, "-test.run=^TestRealServer$", "-test.v")
	if errors.Is(err, guest.ErrUnavailable) {
		t.Skip(err)
	}
	t.Log(out.String())
	testcheck.NoError(t, err)
}

// startServer exports a directory of the guest as the root of the kernel's NFS server of version 4.
// It writes the answers that the programs of an NFS server give to the kernel.
func startServer(t *testing.T, dir string) {
	t.Helper()
	const control = "/proc/fs/nfsd"
	clients := t.TempDir()
	testcheck.NoError(t, unix.Mount("nfsd", control, "nfsd", 0, ""))
	const (
		never = "2147483647"
		flags = 0x2000 | 0x400 | 0x10 | 0x2 // it has a number, no check of subtrees, asynchronous, any port
	)
	for _, line := range []struct{ file, text string }{
		{"/proc/net/rpc/auth.unix.ip/channel", "nfsd 127.0.0.1 " + never + " all\n"},
		{"/proc/net/rpc/nfsd.export/channel", fmt.Sprintf("all %s %s %d 65534 65534 0\n", dir, never, flags)},
		{"/proc/net/rpc/nfsd.fh/channel", `all 1 \x00000000 ` + never + " " + dir + "\n"},
		{control + "/nfsv4recoverydir", clients + "\n"},
		{control + "/versions", "-2 -3 +4 -4.0 +4.1 +4.2\n"},
		{control + "/portlist", "tcp 2049\n"},
		{control + "/threads", "2\n"},
		{control + "/v4_end_grace", "Y\n"}, // no client has to reclaim anything
	} {
		file, err := os.OpenFile(line.file, os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteString(line.text)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Fatalf("%s: %v", line.file, err)
		}
	}
}

func useRealServer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exported")
	testcheck.NoError(t, os.Mkdir(dir, 0o777))
	startServer(t, dir)
	kubelet := filepath.Join(t.TempDir(), "kubelet")
	disk, err := nodefs.NewReal(kubelet)
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, disk.UnmountAll()) }()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	plugin := nfs.New(nfs.Config{Process: host.Process("kubelet"), FS: disk, Root: kubelet})
	do := func(call func(ctx context.Context) error) error {
		done := make(chan error, 1)
		host.Process("kubelet").Spawn("call", func(ctx context.Context) { done <- call(ctx) })
		return <-done
	}
	host.Start()
	spec := persistent(corev1.NFSVolumeSource{Server: "127.0.0.1", Path: "/"})
	// mount.nfs, which the guest may not have, would find out the address.
	spec.PersistentVolume.Spec.MountOptions = []string{"addr=127.0.0.1", "clientaddr=127.0.0.1", "vers=4.2", "soft", "timeo=5", "retrans=1"}
	err = do(func(ctx context.Context) error {
		return errors.Join(plugin.SetUp(ctx, spec, podOf("uid-1"), plugins.MountOptions{}),
			plugin.SetUp(ctx, spec, podOf("uid-2"), plugins.MountOptions{}))
	})
	testcheck.NoError(t, err)
	first, second := plugin.MountPath(spec, "uid-1"), plugin.MountPath(spec, "uid-2")
	testcheck.NoError(t, disk.WriteFile(first+"/file", []byte("1")))
	for _, path := range []string{second + "/file", filepath.Join(dir, "file")} {
		if got, err := os.ReadFile(path); err != nil || string(got) != "1" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	readOnly := &plugins.Spec{PersistentVolume: spec.PersistentVolume, ReadOnly: true}
	testcheck.NoError(t, do(func(ctx context.Context) error {
		return plugin.SetUp(ctx, readOnly, podOf("uid-3"), plugins.MountOptions{})
	}))
	if err := disk.WriteFile(plugin.MountPath(spec, "uid-3")+"/other", nil); !errors.Is(err, nodefs.ErrReadOnly) {
		t.Errorf("write to a read-only mount: %v", err)
	}
	mounts, err := disk.Mounts()
	if err != nil || len(mounts) != 3 || mounts[0].Source != "127.0.0.1:/" || mounts[0].FSType != "nfs4" {
		t.Errorf("mounts %v, %v", mounts, err)
	}
	again, err := plugin.Reconstruct("v", "uid-1")
	if err != nil || again.Spec.Volume.NFS.Server != "127.0.0.1" || again.Spec.Volume.NFS.Path != "/" {
		t.Errorf("reconstructed %v, %v", again.Spec, err)
	}
	spec.PersistentVolume.Spec.NFS.Path = "/missing"
	err = do(func(ctx context.Context) error {
		return plugin.SetUp(ctx, spec, podOf("uid-4"), plugins.MountOptions{})
	})
	if err == nil || !strings.Contains(err.Error(), "Mounting arguments: -t nfs -o addr=127.0.0.1,") {
		t.Errorf("a missing directory: %v", err)
	}
	if there, err := disk.Exists(plugin.MountPath(spec, "uid-4")); err != nil || there {
		t.Errorf("a failed mount has left its directory: %v, %v", there, err)
	}
	for _, uid := range []types.UID{"uid-1", "uid-2"} {
		testcheck.NoError(t, do(func(ctx context.Context) error { return plugin.TearDown(ctx, "v", uid) }))
	}
	testcheck.NoError(t, os.WriteFile("/proc/fs/nfsd/threads", []byte("0\n"), 0),
		disk.UnmountExport(plugin.MountPath(spec, "uid-3"), 500*time.Millisecond))
	if mounts, err := disk.Mounts(); err != nil || len(mounts) > 0 {
		t.Errorf("left: %v, %v", mounts, err)
	}
}
