package csiserver_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/volsim/volsim/cmd/volsim/internal/csiserver"
)

// A driver is a controller service whose DeleteVolume behaves as the volume ID says.
type driver struct {
	csi.UnimplementedControllerServer
	began  chan struct{}
	finish chan struct{}
}

func (d *driver) CreateVolume(context.Context, *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "vol-1"}}, nil
}

func (d *driver) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	switch request.GetVolumeId() {
	case "busy":
		return nil, status.Error(codes.FailedPrecondition, "volume busy is attached")
	case "slow":
		d.began <- struct{}{}
		select {
		case <-d.finish:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &csi.DeleteVolumeResponse{}, nil
}

func serve(t *testing.T, path string, options ...grpc.ServerOption) (*driver, *csiserver.Server, csi.ControllerClient) {
	t.Helper()
	d := &driver{began: make(chan struct{}), finish: make(chan struct{})}
	server, err := csiserver.Listen(t.Context(), path, func(s grpc.ServiceRegistrar) { csi.RegisterControllerServer(s, d) }, options...)
	if err != nil {
		t.Fatal(err)
	}
	server.Serve()
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return d, server, csi.NewControllerClient(conn)
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s still exists: %v", path, err)
	}
}

func TestSocketPaths(t *testing.T) {
	for endpoint, want := range map[string]string{
		"unix:///run/csi.sock": "/run/csi.sock", "unix:/run/csi.sock": "/run/csi.sock", "/run//csi.sock": "/run/csi.sock",
		"unix://csi.sock": "", "csi.sock": "", "tcp://127.0.0.1:80": "", "": "", "unix:///run/": "",
		"unix:///" + strings.Repeat("x", 120): "",
	} {
		got, err := csiserver.SocketPath(endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v; want %q", endpoint, got, err, want)
		}
	}
}

func TestStaleSocketIsReplacedAndServedOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "csi.sock")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false) // like a killed process
	left.Close()

	_, server, client := serve(t, path)
	if _, err := client.CreateVolume(t.Context(), &csi.CreateVolumeRequest{}); err != nil {
		t.Error(err)
	}
	_, err = csiserver.Listen(t.Context(), path, func(grpc.ServiceRegistrar) {})
	if err == nil || !strings.Contains(err.Error(), "is in use") {
		t.Errorf("second server on the socket: %v", err)
	}
	if _, err := client.CreateVolume(t.Context(), &csi.CreateVolumeRequest{}); err != nil {
		t.Errorf("first server after the second: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %v, %v", info.Mode(), err)
	}
	if err := server.Stop(time.Minute); err != nil {
		t.Error(err)
	}
	wantGone(t, path)
	if err := os.WriteFile(path, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := csiserver.Listen(t.Context(), path, func(grpc.ServiceRegistrar) {}); err == nil {
		t.Error("a regular file was accepted as a socket")
	}
	if text, _ := os.ReadFile(path); string(text) != "another file" {
		t.Errorf("file content %q", text)
	}
}

func TestLockDirExcludesOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	unlock, err := csiserver.LockDir(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := csiserver.LockDir(t.Context(), path); !errors.Is(err, csiserver.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	unlock, err = csiserver.LockDir(t.Context(), path)
	if err != nil {
		t.Fatalf("still locked: %v", err)
	}
	unlock()
}

func TestStopWaitsForCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "csi.sock")
	d, server, client := serve(t, path)
	called := make(chan error, 1)
	go func() {
		_, err := client.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "slow"})
		called <- err
	}()
	<-d.began
	stopped := make(chan error, 1)
	go func() { stopped <- server.Stop(time.Minute) }()
	close(d.finish)
	if err := <-called; err != nil {
		t.Errorf("call in flight: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	wantGone(t, path)
}

func TestStopAbortsCallsAfterGrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "csi.sock")
	d, server, client := serve(t, path)
	called := make(chan error, 1)
	go func() {
		_, err := client.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "slow"})
		called <- err
	}()
	<-d.began
	if err := server.Stop(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("stopped with %v", err)
	}
	if err := <-called; status.Code(err) != codes.Unavailable && status.Code(err) != codes.Canceled {
		t.Errorf("aborted call: %v", err)
	}
	wantGone(t, path)
}

// observed makes a few calls and returns their log lines and metrics.
func observed(t *testing.T, level slog.Level) (lines []string, registry *prometheus.Registry) {
	t.Helper()
	var out bytes.Buffer
	registry = prometheus.NewRegistry()
	calls, err := csiserver.NewCallObserver(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), registry, "driver.example")
	if err != nil {
		t.Fatal(err)
	}
	_, server, client := serve(t, filepath.Join(t.TempDir(), "csi.sock"), grpc.UnaryInterceptor(calls.Observe))
	_, err = client.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "data", Secrets: map[string]string{"password": "hunter2"}, Parameters: map[string]string{"kind": "fast"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "busy"}); status.Code(err) != codes.FailedPrecondition {
		t.Fatal(err)
	}
	_, _ = client.GetCapacity(t.Context(), &csi.GetCapacityRequest{}) // Unimplemented
	if err := server.Stop(time.Minute); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n"), registry
}

func TestEachCallIsLogged(t *testing.T) {
	lines, _ := observed(t, slog.LevelInfo)
	for i, want := range [][]string{
		{"level=INFO", "method=CreateVolume", "name=data", "code=OK", "took="},
		{"level=WARN", "method=DeleteVolume", "volume=busy", "code=FailedPrecondition", `error="volume busy is attached"`},
		{"level=WARN", "method=GetCapacity", "code=Unimplemented"},
	} {
		if i >= len(lines) {
			t.Fatalf("%d lines, want 3: %q", len(lines), lines)
		}
		for _, each := range want {
			if !strings.Contains(lines[i], each) {
				t.Errorf("line %d has no %s: %s", i, each, lines[i])
			}
		}
		if strings.Contains(lines[i], "request=") {
			t.Errorf("line %d contains the request: %s", i, lines[i])
		}
	}
	if lines, _ := observed(t, slog.LevelWarn); len(lines) != 2 {
		t.Errorf("%d lines at level warn, want 2 failures: %q", len(lines), lines)
	}
}

func TestSecretsAreNotLogged(t *testing.T) {
	lines, _ := observed(t, slog.LevelDebug)
	all := strings.Join(lines, "\n")
	for _, want := range []string{"password", "fast", "vol-1"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q not logged: %s", want, all)
		}
	}
	if strings.Contains(all, "hunter2") {
		t.Errorf("secret logged: %s", all)
	}
}

func TestCallsAreMeasured(t *testing.T) {
	_, registry := observed(t, slog.LevelError)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]uint64{}
	for _, family := range families {
		for _, each := range family.GetMetric() {
			words := []string{family.GetName()}
			for _, label := range each.GetLabel() {
				words = append(words, label.GetValue())
			}
			counted[strings.Join(words, " ")] = each.GetHistogram().GetSampleCount()
		}
	}
	for _, want := range []string{
		"csi_plugin_operations_seconds driver.example OK /csi.v1.Controller/CreateVolume",
		"csi_plugin_operations_seconds driver.example FailedPrecondition /csi.v1.Controller/DeleteVolume",
		"csi_plugin_operations_seconds driver.example Unimplemented /csi.v1.Controller/GetCapacity",
	} {
		if counted[want] != 1 {
			t.Errorf("%s: count %d, want 1; have %v", want, counted[want], counted)
		}
	}
	if _, ok := counted["csi_plugin_operations_in_flight driver.example"]; !ok {
		t.Errorf("no gauge for calls in flight: %v", counted)
	}
}
