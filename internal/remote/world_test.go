package remote_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/sim"
)

// waitMax is how long a test waits before it fails.
const waitMax = 30 * time.Second

// world is an API server by HTTPS, and a host whose processes reach it by HTTPS only.
type world struct {
	t      *testing.T
	server *fake.Server
	config *clientrest.Config
	user   kubernetes.Interface
	host   *sim.Live
	serve  func(http.ResponseWriter, *http.Request)

	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool // guarded by mu: may answer in place of the server
	seen   []string                                      // guarded by mu: user agents
}

func newWorld(t *testing.T, cfg fake.Config) *world {
	t.Helper()
	w := &world{t: t, host: sim.NewLive(sim.LiveConfig{})}
	t.Cleanup(w.host.Close)
	cfg.Now = w.host.Now
	w.server = fake.NewServer(cfg)
	handler := apiserver.NewHandler(w.server,
		apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }})
	w.serve = handler.ServeHTTP
	l, err := apiserver.Listen(apiserver.ListenConfig{Handler: http.HandlerFunc(func(rw http.ResponseWriter,
		req *http.Request,
	) {
		w.mu.Lock()
		before := w.before
		w.seen = append(w.seen, req.UserAgent())
		w.mu.Unlock()
		if before == nil || !before(rw, req) {
			handler.ServeHTTP(rw, req)
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w.config = l.Config()
	w.user = w.server.Client(sim.DirectCaller())
	return w
}

// intercept passes each request to f before the server; f returns true if it has answered.
func (w *world) intercept(f func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

// connect adds a process with a connection, which ends with the test.
func (w *world) connect(name string, selections ...remote.FieldSelector) (*sim.Process, *remote.Connection) {
	w.t.Helper()
	c := w.host.Process(name)
	conn, err := remote.New(w.config, c, selections...)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Run(ctx)
	}()
	w.t.Cleanup(func() {
		w.host.Close()
		cancel()
		<-done
	})
	return c, conn
}

// until waits until a condition holds, and checks it at each record of the trace.
func (w *world) until(what string, cond func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), waitMax)
	defer cancel()
	if err := w.host.Wait(ctx, what, cond); err != nil {
		w.t.Fatalf("%v\n%s", err, w.host.Log().Text())
	}
}

// claim returns a claim as stored by the server, or nil.
func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	c, err := w.user.CoreV1().PersistentVolumeClaims("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return c
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	v, err := w.user.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return v
}

func (w *world) makeVolume(name string) {
	w.t.Helper()
	w.must(w.user.CoreV1().PersistentVolumes().Create(w.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
		},
	}, metav1.CreateOptions{}))
}

func (w *world) makeClaim(name string) {
	w.t.Helper()
	none, claim := "", cluster.NewClaim(name, "1Gi")
	claim.Spec.StorageClassName = &none
	w.must(w.user.CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), claim, metav1.CreateOptions{}))
}

// must fails the test if a request failed.
func (w *world) must(_ any, err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
