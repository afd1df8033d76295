package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// bare is an API server without controllers, with HTTPS access.
type bare struct {
	t       *testing.T
	user    kubernetes.Interface
	rest    *clientrest.Config
	changes chan struct{} // signals a write; holds at most one token
}

func newBare(t *testing.T) *bare {
	t.Helper()
	server := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now, SkipBootstrap: true})
	b := &bare{t: t, user: server.Client(sim.DirectCaller()), changes: make(chan struct{}, 1)}
	server.OnCommit(func(fake.Commit) {
		select {
		case b.changes <- struct{}{}:
		default:
		}
	})
	l, err := apiserver.Listen(apiserver.ListenConfig{
		Handler: apiserver.NewHandler(server,
			apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	b.rest = l.Config()
	return b
}

// run runs components until the test ends.
func (b *bare) run(parts ...string) *trace.Log {
	b.t.Helper()
	log := &trace.Log{}
	r, err := cluster.NewRemote(cluster.RemoteConfig{REST: b.rest, Components: parts, Log: log})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
		if b.t.Failed() {
			b.t.Log(log.Text())
		}
	})
	return log
}

// until waits for a state of the server.
func (b *bare) until(what string, cond func(ctx context.Context) bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for !cond(ctx) {
		select {
		case <-b.changes:
		case <-ctx.Done():
			b.t.Fatalf("timed out waiting for %s", what)
		}
	}
}

func (b *bare) makeMap(namespace, name string, owner *corev1.ConfigMap) *corev1.ConfigMap {
	b.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap",
			Name: owner.Name, UID: owner.UID,
		}}
	}
	return testcheck.Must(b.user.CoreV1().ConfigMaps(namespace).Create(b.t.Context(), m, metav1.CreateOptions{}))
}

// Dependents of a deleted owner are collected, and nothing else, by a collector with HTTPS access
// only.
func TestRemoteGarbageIsCollected(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	owner := b.makeMap("default", "owner", nil)
	b.makeMap("default", "early", owner)
	b.run("garbagecollector")
	b.makeMap("default", "late", owner)
	b.makeMap("default", "free", nil)
	maps := b.user.CoreV1().ConfigMaps("default")
	testcheck.NoError(t, maps.Delete(t.Context(), "owner", metav1.DeleteOptions{}))
	b.until("the end of the dependents", func(ctx context.Context) bool {
		all, err := maps.List(ctx, metav1.ListOptions{})
		return err == nil && len(all.Items) == 1 && all.Items[0].Name == "free"
	})
	foreground := metav1.DeletePropagationForeground
	owner = b.makeMap("default", "waits", nil)
	b.makeMap("default", "first", owner)
	testcheck.NoError(t, maps.Delete(t.Context(), "waits", metav1.DeleteOptions{PropagationPolicy: &foreground}))
	b.until("the end of both", func(ctx context.Context) bool {
		all, err := maps.List(ctx, metav1.ListOptions{})
		return err == nil && len(all.Items) == 1
	})
}

// A namespace gets its service account and its root CA, and is emptied when it is deleted.
func TestRemoteNamespaceIsCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	b.run("namespace", "serviceaccount", "rootca")
	namespaces := b.user.CoreV1().Namespaces()
	testcheck.Must(namespaces.Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}))
	b.until("the account and the root CA", func(ctx context.Context) bool {
		_, err := b.user.CoreV1().ServiceAccounts("team").Get(ctx, "default", metav1.GetOptions{})
		ca, err2 := b.user.CoreV1().ConfigMaps("team").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil && err2 == nil && ca.Data["ca.crt"] == string(b.rest.CAData)
	})
	b.makeMap("team", "content", nil)
	testcheck.NoError(t, namespaces.Delete(t.Context(), "team", metav1.DeleteOptions{}))
	b.until("the end of the namespace", func(ctx context.Context) bool {
		_, err := namespaces.Get(ctx, "team", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// All components that can run against a real server do so together: each lists its resources.
func TestAllRemoteComponentsStart(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	var names []string
	for _, p := range cluster.RemoteComponents() {
		names = append(names, p.Name)
		if p.Replaces == "" {
			t.Errorf("%s has no upstream name", p.Name)
		}
	}
	log := b.run(names...)
	listed := map[string]bool{}
	seen := make(chan string, 10_000)
	log.Watch(func(r trace.Record) {
		if r.Verb == "LIST" {
			seen <- r.Task
		}
	})
	for _, r := range log.Records() {
		if r.Verb == "LIST" {
			seen <- r.Task
		}
	}
	limit := time.After(time.Minute)
	for len(listed) < len(names) {
		select {
		case task := <-seen:
			for _, name := range names {
				if len(task) > len(name) && task[:len(name)+1] == name+"/" {
					listed[name] = true
				}
			}
		case <-limit:
			t.Fatalf("only %[2]v of %[1]v have listed", names, listed)
		}
	}
}

func TestInvalidRemoteComponents(t *testing.T) {
	t.Parallel()
	here := &clientrest.Config{Host: "https://127.0.0.1:1"}
	if _, err := cluster.NewRemote(cluster.RemoteConfig{REST: here, Components: []string{"kubelet"}}); !errors.Is(err,
		cluster.ErrUnknownComponent) {
		t.Errorf("kubelet: %v, want ErrNoPart", err)
	}
	if _, err := cluster.NewRemote(cluster.RemoteConfig{REST: here, Components: []string{"rootca"}}); err == nil {
		t.Error("an unknown root CA is published")
	}
	storage := slices.DeleteFunc(cluster.RemoteComponents(), func(p cluster.RemoteComponent) bool { return !p.Storage })
	if len(storage) != 7 || storage[0].Name != "pvcontroller" {
		t.Errorf("storage controllers %v", storage)
	}
}
