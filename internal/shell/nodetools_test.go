package shell_test

import (
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestMounttest examines and makes files, in a fixed order.
func TestMounttest(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		stdout string
		code   int32
	}{
		{
			"all tests",
			[]string{"--file_content=/a/f", "--new_file_0660=/a/f", "--file_mode=/a/f", "--file_owner=/a/f", "--file_perm=/a"},
			"content of file \"/a/f\": mount-tester new file\n\nmode of file \"/a/f\": -rw-rw----\nperms of file \"/a\": -rwxr-x---\n" +
				"owner UID of \"/a/f\": 0\nowner GID of \"/a/f\": 0\ncontent of file \"/a/f\": mount-tester new file\n\n", 0,
		},
		{
			"a test that fails",
			[]string{"--file_content=/a/missing"},
			"error reading file content for \"/a/missing\": open /a/missing: no such file or directory\n", 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			onHosts(t, func(t *testing.T, w *world) {
				stdout, stderr, state := w.finish(t, spec("main", append([]string{"agnhost", "mounttest"}, c.args...)...))
				testcheck.Equal(t, "stdout", c.stdout, stdout)
				testcheck.Equal(t, "stderr", "", stderr)
				testcheck.Equal(t, "code", c.code, state.Code)
			})
		})
	}
}

// TestMounttestReadsAgain until another container has written the file.
func TestMounttestReadsAgain(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		reader := spec("reader", "agnhost", "mounttest", "--file_content_in_loop=/a/f", "--retry_time=60")
		w.runtime.Start(reader)
		w.printed(t, reader.Run, "Error reading file /a/f: open /a/f: no such file or directory, retrying\n")
		w.finish(t, spec("writer", "sh", "-c", "echo mount-tester new file >/a/f"))
		w.ended(t, reader.Run)
		testcheck.Equal(t, "code", int32(0), w.runtime.State(reader.Run).Code)
	})
}

// TestNsenter lets a privileged container see the files of its node, and no other.
func TestNsenter(t *testing.T) {
	const script = `nsenter --mount=/rootfs/proc/1/ns/mnt -- sh -c 'cat /var/lib/kubelet/secret/key; mount | grep -c secret'; cat /var/lib/kubelet/secret/key`
	for _, c := range []struct {
		name       string
		privileged bool
		stdout     string
		stderr     string
	}{
		{"privileged", true, "secret\n1\n", "cat: can't open '/var/lib/kubelet/secret/key': No such file or directory\n"},
		{"not privileged", false, "", "nsenter: can't open '/proc/1/ns/mnt': Permission denied\n" +
			"cat: can't open '/var/lib/kubelet/secret/key': No such file or directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onHosts(t, func(t *testing.T, w *world) {
				testcheck.NoError(t, w.disk.BindMount("/node/secret", "/node/secret", true))
				s := spec("main", "sh", "-c", script)
				s.Privileged = c.privileged
				stdout, stderr, _ := w.finish(t, s)
				testcheck.Equal(t, "stdout", c.stdout, stdout)
				testcheck.Equal(t, "stderr", c.stderr, stderr)
			})
		})
	}
}

// TestKillEndsWhatRunsOnTheNode as well: KILL of a container ends the processes that it has started by nsenter.
func TestKillEndsWhatRunsOnTheNode(t *testing.T) {
	onHosts(t, func(t *testing.T, w *world) {
		s := spec("main", "sh", "-c", "nsenter -m -- sh -c 'echo begun; sleep 1d | cat; echo ended'")
		s.Privileged = true
		w.runtime.Start(s)
		w.printed(t, s.Run, "begun\n")
		w.runtime.Stop(s.Run, 0)
		w.ended(t, s.Run)
		testcheck.Equal(t, "code", int32(137), w.runtime.State(s.Run).Code)
	})
}
