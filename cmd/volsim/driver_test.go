package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// programTimeout is the time limit for starting and stopping a program.
const programTimeout = time.Minute

// A program is a process of "volsim driver".
type program struct {
	*testing.T
	cmd   *exec.Cmd
	log   *programLog
	conn  *grpc.ClientConn
	ended chan error
}

// A programLog is the output of a program, which may arrive shortly after its cause.
type programLog struct {
	mu   sync.Mutex
	text bytes.Buffer  // guarded by mu
	more chan struct{} // guarded by mu; closed when there is more output
}

func newProgramLog() *programLog { return &programLog{more: make(chan struct{})} }

func (l *programLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *programLog) String() string {
	text, _ := l.now()
	return text
}

func (l *programLog) now() (text string, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.more
}

// command returns a command that runs volsim.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	return cmd
}

// startDriver runs "volsim driver" until the end of the test. It returns when the driver serves.
func startDriver(t *testing.T, socket, kind string, args ...string) *program {
	t.Helper()
	p := &program{T: t, cmd: command(append([]string{"driver", kind, "--endpoint", "unix://" + socket, "--node-id", "node-1"}, args...)...)}
	p.log, p.ended = newProgramLog(), make(chan error, 1)
	p.cmd.Stderr = p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		if p.cmd.Process.Kill() == nil {
			<-p.ended
		}
		if t.Failed() {
			t.Logf("output of the program:\n%s", p.log)
		}
	})
	var err error
	p.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(
		grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond},
			MinConnectTimeout: programTimeout, // by default a slow connection is cut off after BaseDelay
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	if _, err := csi.NewIdentityClient(p.conn).Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatalf("driver does not serve: %v\n%s", err, p.log)
	}
	return p
}

// kill kills the program.
func (p *program) kill() {
	p.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.Fatal(err)
	}
	<-p.ended
}

// stop interrupts the program and checks that it logs the end.
func (p *program) stop() {
	p.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			p.Errorf("program ended with %v", err)
		}
	case <-time.After(programTimeout):
		p.Fatal("program does not end")
	}
	if !strings.Contains(p.log.String(), "msg=stopped") {
		p.Errorf("no line about the end:\n%s", p.log)
	}
}

// waitFor waits for a text in the output and returns the rest of its line. Lines are written at once.
func (p *program) waitFor(what string) (after string) {
	p.Helper()
	late := time.After(programTimeout)
	for {
		text, more := p.log.now()
		if _, after, found := strings.Cut(text, what); found {
			return after
		}
		select {
		case <-more:
		case <-late:
			p.Fatalf("no %q in the output:\n%s", what, p.log)
		}
	}
}

func socketIn(dir string) string { return filepath.Join(dir, "csi.sock") }

func TestDriverRegistersWithKubelet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "registry", "driver-reg.sock")
	p := startDriver(t, socketIn(dir), "array", "--kubelet-registration", path, "--kubelet-endpoint", "/kubelet/sees/csi.sock")
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	kubelet := registration.NewRegistrationClient(conn)
	info, err := kubelet.GetInfo(t.Context(), &registration.InfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if info.GetType() != registration.CSIPlugin || info.GetName() != "array.csi.volsim.dev" || info.GetEndpoint() != "/kubelet/sees/csi.sock" {
		t.Errorf("registration %v", info)
	}
	for _, c := range []struct {
		status *registration.RegistrationStatus
		want   string
	}{
		{&registration.RegistrationStatus{Error: "no such node"}, `error="no such node"`},
		{&registration.RegistrationStatus{PluginRegistered: true}, "registered with the kubelet"},
	} {
		if _, err := kubelet.NotifyRegistrationStatus(t.Context(), c.status); err != nil {
			t.Fatal(err)
		}
		p.waitFor(c.want)
	}
	p.stop()
	for _, each := range []string{path, socketIn(dir)} {
		if _, err := os.Lstat(each); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("leaked %s: %v", each, err)
		}
	}
}

func TestDriverServesMetrics(t *testing.T) {
	dir := t.TempDir()
	p := startDriver(t, socketIn(dir), "array", "--metrics", "127.0.0.1:0")
	response, err := http.Get(strings.Fields(p.waitFor("url="))[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`csi_plugin_operations_seconds_count{driver_name="array.csi.volsim.dev",grpc_status_code="OK",method_name="/csi.v1.Identity/Probe"} 1`,
		"process_resident_memory_bytes",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	p.stop()
}

func TestDriverRejectsInvalidOptions(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"array", "--endpoint", "tcp://127.0.0.1:1"}, "--endpoint: invalid endpoint \"tcp://127.0.0.1:1\": want the absolute path of a unix socket"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--quiet", "--verbose"}, "mutually exclusive"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--node-id", strings.Repeat("n", 257)}, "invalid --node-id: node_id has 257 bytes"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--node-id", "a\x1bb"}, "control character U+001B"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--driver-name", "my driver"}, "invalid --driver-name \"my driver\""},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--driver-name", strings.Repeat("n", 64)}, "at most 63 characters"},
		{[]string{"loop"}, "--state is required"},
		{[]string{"loop", "--state", dir, "--root", filepath.Join(dir, "none")}, "specify the directory of the kubelet"},
		{[]string{"loop", "--state", filepath.Join(dir, "none"), "--root", dir, "--orphans"}, "--state: "},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--metrics", "nowhere"}, `invalid --metrics "nowhere"`},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--metrics", "127.0.0.1:http-alt-8"}, "invalid --metrics"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--kubelet-registration", "reg.sock"}, "--kubelet-registration: invalid endpoint"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--grace", "-1s"}, "invalid --grace -1s"},
		{[]string{"array", "--endpoint", filepath.Join(dir, "s"), "--volumes-per-node", "-1"}, "invalid --volumes-per-node -1"},
		{[]string{"lvm", "--state", dir, "--root", dir, "--overcommit", "0"}, "invalid --overcommit 0: want a number of at least 1"},
		{[]string{"lvm", "--state", dir, "--root", dir, "--overcommit", "0.9"}, "invalid --overcommit 0.9: want a number of at least 1"},
		{[]string{"lvm", "--state", dir, "--root", dir, "--overcommit", "NaN"}, "invalid --overcommit NaN: want a number of at least 1"},
		{[]string{"array", "--colour"}, "unknown flag"},
	} {
		out := &strings.Builder{}
		if status := run(t.Context(), append([]string{"driver"}, c.args...), out, out); status != 2 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%q: status %d, %s; want 2 and %q", c.args, status, out, c.want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "20Gi": 20 << 30, "1000": 1000, "0": -1, "-1Gi": -1, "much": -1} {
		got, err := parseBytes("--reserve", text)
		if want < 0 {
			if err == nil || !strings.Contains(err.Error(), "--reserve") {
				t.Errorf("%q: got %d, %v; want an error that names the flag", text, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
}
