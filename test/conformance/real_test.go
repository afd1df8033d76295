package conformance_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientrest "k8s.io/client-go/rest"
)

// token is the client's bearer token.
const token = "conformance"

// startMax is the time limit for starting a real server.
const startMax = time.Minute

// Programs that are tools of this module.
const (
	etcdProgram      = "go.etcd.io/etcd/server/v3"
	apiserverProgram = "k8s.io/kubernetes/cmd/kube-apiserver"
)

// buildTag is the build tag of this module.
const buildTag = "csi1.12"

// programs are the real programs that tests have built, in a directory that TestMain removes.
var programs struct {
	sync.Mutex
	dir string
}

// realProgram returns the path of a tool of this module. It is built once.
func realProgram(t testing.TB, name string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if programs.dir == "" {
		var err error
		if programs.dir, err = os.MkdirTemp("", "volsim-programs-"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(programs.dir, strings.ReplaceAll(name, "/", "-"))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-tags", buildTag, "-ldflags", "-s -w", "-o", path, name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return path
}

// realServer starts etcd and a kube-apiserver on loopback and stops them at the end of the test.
func realServer(t testing.TB) *clientrest.Config {
	t.Helper()
	etcd, apiserver := realProgram(t, etcdProgram), realProgram(t, apiserverProgram)
	dir := t.TempDir()
	ports := freePorts(t, 3)
	client, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	run(t, dir, etcd, "--data-dir", filepath.Join(dir, "data"), "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer)
	await(t, &clientrest.Config{Host: client}, "/health")

	key := filepath.Join(dir, "sa.key")
	writeFile(t, key, serviceAccountKey(t))
	writeFile(t, filepath.Join(dir, "tokens.csv"), []byte(token+`,admin,admin,"system:masters"`+"\n"))
	run(t, dir, apiserver, "--etcd-servers", client, "--cert-dir", filepath.Join(dir, "certs"),
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", ports[2],
		"--token-auth-file", filepath.Join(dir, "tokens.csv"), "--authorization-mode", "AlwaysAllow",
		"--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/24",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--endpoint-reconciler-type", "none")
	cfg := &clientrest.Config{
		Host: "https://127.0.0.1:" + ports[2], BearerToken: token, QPS: -1,
		TLSClientConfig: clientrest.TLSClientConfig{Insecure: true}, // self-signed, on loopback
	}
	await(t, cfg, "/readyz")
	return cfg
}

// freePorts returns free loopback ports.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// run runs a program until the end of the test, and logs its output if the test fails.
func run(t testing.TB, dir, program string, args ...string) {
	t.Helper()
	log := filepath.Join(dir, filepath.Base(program)+".log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no state to keep
		_ = cmd.Wait()         // killed
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			t.Logf("%s said last:\n%s", program, strings.Join(lines[max(0, len(lines)-5):], "\n"))
		}
	})
}

// await waits until a server is healthy.
func await(t testing.TB, cfg *clientrest.Config, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startMax)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	for {
		err := checkHealth(ctx, client, cfg, path)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s%s: %v", cfg.Host, path, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func checkHealth(ctx context.Context, client *http.Client, cfg *clientrest.Config, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+cfg.BearerToken)
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

func serviceAccountKey(t testing.TB) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func writeFile(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
