package remote_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// world is an API server by HTTPS, and a host whose processes reach it by HTTPS only.
type world struct {
	*testworld.On[*sim.Live]
	config *clientrest.Config
	serve  func(http.ResponseWriter, *http.Request)

	mu     sync.Mutex
	before func(http.ResponseWriter, *http.Request) bool // guarded by mu: may answer in place of the server
	seen   []string                                      // guarded by mu: user agents
}

func newWorld(t *testing.T, cfg fake.Config) *world {
	t.Helper()
	w := &world{On: testworld.NewOn(t, sim.NewLive(sim.LiveConfig{}), cfg)}
	w.User = w.Server.Client(sim.DirectCaller())
	handler := apiserver.NewHandler(w.Server,
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
	w.NoError(err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w.config = l.Config()
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
	w.Helper()
	c := w.Host.Process(name)
	conn, err := remote.New(w.config, c, selections...)
	w.NoError(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn.Run(ctx)
	}()
	w.Cleanup(func() {
		w.Host.Close()
		cancel()
		<-done
	})
	return c, conn
}

// claim returns a claim as stored by the server, or nil.
func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	c, err := w.User.CoreV1().PersistentVolumeClaims("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return c
}

func (w *world) volume(name string) *corev1.PersistentVolume {
	v, err := w.User.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return v
}

func (w *world) makeVolume(name string) {
	w.Helper()
	testcheck.Must(w.User.CoreV1().PersistentVolumes().Create(w.Context(), &corev1.PersistentVolume{
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
	w.Helper()
	none, claim := "", cluster.NewClaim(name, "1Gi")
	claim.Spec.StorageClassName = &none
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(w.Context(), claim, metav1.CreateOptions{}))
}
