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

// bare is an API server without controllers, and the way to it by HTTPS.
type bare struct {
	t       *testing.T
	user    kubernetes.Interface
	rest    *clientrest.Config
	changes chan struct{} // something was written; holds at most one token
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
		Handler: apiserver.NewHandler(server, apiserver.HandlerConfig{Caller: func(*http.Request) sim.Caller { return sim.DirectCaller() }}),
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

// run runs parts until the test is over.
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

// until waits until the server holds what is wanted.
func (b *bare) until(what string, cond func(ctx context.Context) bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	defer cancel()
	for !cond(ctx) {
		select {
		case <-b.changes:
		case <-ctx.Done():
			b.t.Fatalf("%s does not come", what)
		}
	}
}

func (b *bare) makeMap(namespace, name string, owner *corev1.ConfigMap) *corev1.ConfigMap {
	b.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	}
	return testcheck.Must(b.user.CoreV1().ConfigMaps(namespace).Create(b.t.Context(), m, metav1.CreateOptions{}))
}

// What an owner leaves behind is collected, and nothing else; by a collector that sees by HTTPS
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

// A namespace gets its account and its root CA, and is emptied.
func TestRemoteNamespaceComesAndGoes(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	b.run("namespace", "serviceaccount", "rootca")
	namespaces := b.user.CoreV1().Namespaces()
	testcheck.Must(namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.CreateOptions{}))
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

// All parts that run against a real server do, at once: each lists what it needs.
func TestAllRemotePartsBegin(t *testing.T) {
	t.Parallel()
	b := newBare(t)
	var names []string
	for _, p := range cluster.RemoteComponents() {
		names = append(names, p.Name)
		if p.Replaces == "" {
			t.Errorf("%s stands for nothing", p.Name)
		}
	}
	log := b.run(names...)
	listed := map[string]bool{}
	heard := make(chan string, 10_000)
	log.Watch(func(r trace.Record) {
		if r.Verb == "LIST" {
			heard <- r.Task
		}
	})
	for _, r := range log.Records() {
		if r.Verb == "LIST" {
			heard <- r.Task
		}
	}
	limit := time.After(time.Minute)
	for len(listed) < len(names) {
		select {
		case actor := <-heard:
			for _, name := range names {
				if len(actor) > len(name) && actor[:len(name)+1] == name+"/" {
					listed[name] = true
				}
			}
		case <-limit:
			t.Fatalf("of %v only %v have listed", names, listed)
		}
	}
}

func TestRemotePartsThatCannotBe(t *testing.T) {
	t.Parallel()
	here := &clientrest.Config{Host: "https://127.0.0.1:1"}
	if _, err := cluster.NewRemote(cluster.RemoteConfig{REST: here, Components: []string{"kubelet"}}); !errors.Is(err, cluster.ErrUnknownComponent) {
		t.Errorf("kubelet: %v, want ErrNoPart", err)
	}
	if _, err := cluster.NewRemote(cluster.RemoteConfig{REST: here, Components: []string{"rootca"}}); err == nil {
		t.Error("a root CA that nobody knows is published")
	}
	storage := slices.DeleteFunc(cluster.RemoteComponents(), func(p cluster.RemoteComponent) bool { return !p.Storage })
	if len(storage) != 4 || storage[0].Name != "pvcontroller" {
		t.Errorf("storage controllers %v", storage)
	}
}
