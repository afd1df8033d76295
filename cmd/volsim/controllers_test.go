package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// asCommand is the environment variable that makes the test binary act as volsim.
const asCommand = "VOLSIM_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	silenceLogs()
	os.Exit(m.Run())
}

// A bare is an API server without controllers.
type bare struct {
	t      *testing.T
	server *fake.Server
	user   kubernetes.Interface
}

func newBare(t *testing.T) *bare {
	t.Helper()
	server := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now})
	return &bare{t: t, server: server, user: server.Client(sim.DirectCaller())}
}

// listen serves the API over HTTPS and returns a kubeconfig for it.
func (b *bare) listen() (kubeconfig string, shut func()) {
	b.t.Helper()
	l, err := apiserver.Listen(apiserver.ListenConfig{
		Handler: apiserver.NewHandler(b.server, apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }}),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	open := true
	shut = func() {
		if err := l.Close(); open && err != nil {
			b.t.Error(err)
		}
		open = false
	}
	b.t.Cleanup(shut)
	kubeconfig = filepath.Join(b.t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*l.Kubeconfig("bare"), kubeconfig); err != nil {
		b.t.Fatal(err)
	}
	return kubeconfig, shut
}

// bind creates a volume and a claim and waits until they are bound.
func (b *bare) bind(name string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	_, err := b.user.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	none, claim := "", cluster.NewClaim(name, "1Gi")
	claim.Spec.StorageClassName = &none
	if claim, err = b.user.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	changes, err := b.user.CoreV1().PersistentVolumeClaims("default").Watch(ctx, metav1.ListOptions{ResourceVersion: claim.ResourceVersion})
	if err != nil {
		b.t.Fatal(err)
	}
	defer changes.Stop()
	for e := range changes.ResultChan() {
		if c, ok := e.Object.(*corev1.PersistentVolumeClaim); ok && c.Name == name && c.Status.Phase == corev1.ClaimBound {
			return
		}
	}
	b.t.Fatalf("claim %s not bound", name)
}

// holder returns the holder of the lease.
func (b *bare) holder() string {
	b.t.Helper()
	lease, err := b.user.CoordinationV1().Leases("kube-system").Get(b.t.Context(), "volsim-controllers", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// A running is a running "volsim controllers".
type running struct {
	t        *testing.T
	lines    <-chan string // of its standard output
	errLines <-chan string // of its standard error
	ended    <-chan int    // exit status
	cancel   func()
}

// Flags of elections: for a leader that keeps its lease even on a busy machine, and for one that soon
// loses it without the server.
var (
	electing = []string{"--lease-duration", "1h", "--lease-renew-deadline", "30m", "--lease-retry-period", "100ms"}
	expiring = []string{"--lease-duration", "3s", "--lease-renew-deadline", "2s", "--lease-retry-period", "100ms"}
)

// control runs "volsim controllers" in this process.
func control(t *testing.T, kubeconfig string, args ...string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	out, in := io.Pipe()
	errOut, errIn := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		status := run(ctx, append([]string{"controllers", "--kubeconfig", kubeconfig}, args...), in, errIn)
		in.Close()
		errIn.Close()
		ended <- status
	}()
	return &running{t: t, lines: linesOf(out), errLines: linesOf(errOut), ended: ended, cancel: cancel}
}

func linesOf(out io.Reader) <-chan string {
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines
}

// until reads the output up to a line with a prefix, and returns all of it.
func (r *running) until(beginning string) string {
	r.t.Helper()
	return lineOf(r.t, r.lines, beginning)
}

func lineOf(t *testing.T, lines <-chan string, beginning string) string {
	t.Helper()
	var all strings.Builder
	limit := time.After(time.Minute)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("no line %q in\n%s", beginning, all.String())
			}
			all.WriteString(line + "\n")
			if strings.HasPrefix(line, beginning) {
				return all.String()
			}
		case <-limit:
			t.Fatalf("no line %q within a minute; output:\n%s", beginning, all.String())
		}
	}
}

// stop interrupts it and returns its status and remaining output.
func (r *running) stop() (status int, rest, errs string) {
	r.t.Helper()
	r.cancel()
	return r.end()
}

// end waits for its end and returns its status and remaining output.
func (r *running) end() (status int, rest, errs string) {
	r.t.Helper()
	return <-r.ended, all(r.lines), all(r.errLines)
}

func all(lines <-chan string) string {
	var all strings.Builder
	for line := range lines {
		all.WriteString(line + "\n")
	}
	return all.String()
}

// TestControllersBindAgainstAServer binds a claim of a server that is reachable only over HTTPS.
func TestControllersBindAgainstAServer(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, _ := b.listen()
	r := control(t, kubeconfig, electing...)
	head := r.until("acting")
	for _, want := range []string{"server      https://", "components  pvcontroller, pvprotection, pvcprotection, vacprotection, attachdetach, expand, ephemeral\n", "lease       kube-system/volsim-controllers, as "} {
		if !strings.Contains(head, want) {
			t.Errorf("output lacks %q:\n%s", want, head)
		}
	}
	b.bind("data")
	if b.holder() == "" {
		t.Error("the lease has no holder")
	}
	status, rest, errs := r.stop()
	if status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	for _, want := range []string{"binds claim default/data to volume data", "\nstopped\n"} {
		if !strings.Contains(rest, want) {
			t.Errorf("output lacks %q:\n%s", want, rest)
		}
	}
	if holder := b.holder(); holder != "" {
		t.Errorf("lease holder after the end: %s", holder)
	}
}

// TestControllersTakeTurns runs two processes. The second one acts after the first one has stopped.
func TestControllersTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, _ := b.listen()
	first := control(t, kubeconfig, electing...)
	first.until("acting")
	second := control(t, kubeconfig, append(electing, "--trace")...)
	if waiting := second.until("lease       kube-system/volsim-controllers is held by"); strings.Contains(waiting, "acting") {
		t.Errorf("both act:\n%s", waiting)
	}
	b.bind("one")
	if status, _, errs := first.stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	if before := second.until("acting"); strings.Contains(before, "\t") {
		t.Errorf("action of the second process before it leads:\n%s", before)
	}
	b.bind("two")
	if status, rest, errs := second.stop(); status != 0 || !strings.Contains(rest, "\tapi update persistentvolumeclaims/default/two\t") {
		t.Errorf("status %d, stderr %q, output\n%s", status, errs, rest)
	}
}

// TestControllersStopWithoutTheLease disconnects the leader from the server.
func TestControllersStopWithoutTheLease(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, shut := b.listen()
	other, _ := b.listen()
	first := control(t, kubeconfig, expiring...)
	first.until("acting")
	shut()
	status, _, errs := first.end()
	if want := "volsim: lease kube-system/volsim-controllers is lost: another process may act now\n"; status != 1 || !strings.HasSuffix(errs, want) {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	second := control(t, other, electing...)
	second.until("acting")
	b.bind("data")
	if status, _, errs := second.stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

// expire shortens the lease to a second, as if the rest of its time had passed.
func (b *bare) expire() {
	b.t.Helper()
	patch := []byte(`{"spec":{"leaseDurationSeconds":1}}`)
	if _, err := b.user.CoordinationV1().Leases("kube-system").Patch(b.t.Context(), "volsim-controllers", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// TestControllersSurviveAKilledLeader kills the leading process.
func TestControllersSurviveAKilledLeader(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, _ := b.listen()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	leader := exec.CommandContext(t.Context(), self, append([]string{"controllers", "--kubeconfig", kubeconfig}, electing...)...)
	leader.Env = append(os.Environ(), asCommand+"=1")
	out, err := leader.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	(&running{t: t, lines: linesOf(out)}).until("acting")
	b.bind("one")
	successor := control(t, kubeconfig, electing...)
	successor.until("lease       kube-system/volsim-controllers is held by")
	if err := leader.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exited *exec.ExitError
	if err := leader.Wait(); !errors.As(err, &exited) {
		t.Errorf("end of the leader: %v", err)
	}
	b.expire()
	successor.until("acting")
	b.bind("two")
	if status, _, errs := successor.stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
}

// TestControllersWithoutALease checks that without election they act at once and create no lease.
func TestControllersWithoutALease(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, _ := b.listen()
	r := control(t, kubeconfig, "--leader-elect=false", "--only", "pvcprotection,pvcontroller")
	if head := r.until("acting"); !strings.Contains(head, "components  pvcontroller, pvcprotection\n") || strings.Contains(head, "lease") {
		t.Errorf("output\n%s", head)
	}
	b.bind("data")
	if status, _, errs := r.stop(); status != 0 || errs != "" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	leases, err := b.user.CoordinationV1().Leases("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(leases.Items) > 0 {
		t.Errorf("leases %v, %v", leases.Items, err)
	}
}

// TestControllersReportElectionErrors uses a lease in a missing namespace.
func TestControllersReportElectionErrors(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	kubeconfig, _ := b.listen()
	r := control(t, kubeconfig, append(electing, "--lease-namespace", "nowhere", "--trace")...)
	r.until("lease       nowhere/volsim-controllers, as ")
	if line := lineOf(t, r.errLines, "volsim: lease nowhere/volsim-controllers: "); !strings.Contains(line, `namespaces "nowhere" not found`) {
		t.Errorf("stderr %q", line)
	}
	if status, rest, _ := r.stop(); status != 0 || strings.Contains(rest, "acting") {
		t.Errorf("status %d, output\n%s", status, rest)
	}
}

func TestControllersList(t *testing.T) {
	t.Parallel()
	status, out, errs := volsim(t.Context(), "controllers", "--list")
	if status != 0 || errs != "" || strings.Count(out, "\n") != len(cluster.RemoteComponents())+1 {
		t.Errorf("status %d, stderr %q, output\n%s", status, errs, out)
	}
	words := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{" pvcontroller persistentvolume-binder-controller yes ", " scheduler kube-scheduler garbagecollector "} {
		if !strings.Contains(words, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}

func TestControllersRejectInvalidOptions(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	good, _ := b.listen()
	dead, shut := b.listen()
	shut()
	dir := t.TempDir()
	file := func(name, from, to string) string {
		text := []byte("{")
		if from != "" {
			old, err := os.ReadFile(good)
			if err != nil {
				t.Fatal(err)
			}
			text = []byte(strings.Replace(string(old), from, to, 1))
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"no kubeconfig", nil, "--kubeconfig is required"},
		{"missing kubeconfig", []string{"--kubeconfig", filepath.Join(dir, "none")}, "read kubeconfig "},
		{"invalid kubeconfig", []string{"--kubeconfig", file("bad", "", "")}, "read kubeconfig "},
		{"missing context", []string{"--kubeconfig", good, "--context", "none"}, `context "none" does not exist`},
		{"unknown component", []string{"--kubeconfig", good, "--only", "pvcontroller,gc"}, `no such component "gc"`},
		{"component that needs a driver", []string{"--kubeconfig", good, "--only", "provisioner"}, "(have pvcontroller, pvprotection, "},
		{"no component", []string{"--kubeconfig", good, "--only", ""}, "--only is empty"},
		{"invalid disk", []string{"--kubeconfig", good, "--local-storage", "--disk", "node-1"}, `invalid --disk "node-1": want NODE:PATH=SIZE`},
		{"disk without local storage", []string{"--kubeconfig", good, "--disk", "node-1:/dev/sdb=1Gi"}, "--disk requires --local-storage"},
		{"unreachable server", []string{"--kubeconfig", dead}, "reach https://127.0.0.1:"},
		{"unknown token", []string{"--kubeconfig", file("token", "token: ", "token: x")}, "provide credentials"},
		{"invalid timings", []string{"--kubeconfig", good, "--lease-duration", "1s"}, "leaseDuration must be greater than renewDeadline"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, _, errs := volsim(t.Context(), append([]string{"controllers"}, tt.args...)...)
			wrong := 2
			if strings.HasPrefix(tt.want, "reach ") || tt.want == "provide credentials" { // the server's fault
				wrong = 1
			}
			if status != wrong || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("status %d, stderr %q, want %d and one line with %q", status, errs, wrong, tt.want)
			}
		})
	}
}
