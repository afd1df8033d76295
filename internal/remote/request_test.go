package remote_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim/trace"
)

// script runs as a task of a process, and returns when it is done.
func (w *world) script(name string, run func(ctx context.Context, client kubernetes.Interface)) {
	w.Helper()
	c, conn := w.connect(name)
	var done sync.WaitGroup
	done.Add(1)
	c.Spawn("script", func(ctx context.Context) {
		defer done.Done()
		run(ctx, conn.Client())
	})
	w.Host.Start()
	done.Wait()
}

// requests returns the requests of a process with their outcomes.
func (w *world) requests(process string) []string {
	var all []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, process+"/") {
			all = append(all, r.Action.String()+" "+r.Result())
		}
	}
	return all
}

// everyVerb makes requests of every verb.
func everyVerb(ctx context.Context, client kubernetes.Interface) {
	claims, volumes := client.CoreV1().PersistentVolumeClaims("default"), client.CoreV1().PersistentVolumes()
	classes, pods := client.StorageV1().StorageClasses(), client.CoreV1().Pods("default")
	fails := func(_ any, _ error) {}
	fails(classes.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "p"},
		metav1.CreateOptions{}))
	fails(classes.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "p"},
		metav1.CreateOptions{}))
	fails(classes.Get(ctx, "fast", metav1.GetOptions{}))
	fails(classes.List(ctx, metav1.ListOptions{}))
	fails(claims.Get(ctx, "none", metav1.GetOptions{}))
	fails(claims.List(ctx, metav1.ListOptions{}))
	fails(volumes.UpdateStatus(ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "none"}},
		metav1.UpdateOptions{}))
	maps := client.CoreV1().ConfigMaps("default")
	fails(maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "some-"}},
		metav1.CreateOptions{}))
	m, _ := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	fails(maps.Update(ctx, m, metav1.UpdateOptions{}))
	fails(maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"data":{"v":"1"}}`), metav1.PatchOptions{}))
	fails(maps.Update(ctx, m, metav1.UpdateOptions{})) // a conflict
	fails(nil, pods.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	fails(nil, pods.Delete(ctx, "none", metav1.DeleteOptions{}))
	fails(client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}))
	ns, _ := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	fails(client.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{}))
}

// A request has the same action and outcome in the trace as in a simulation.
func TestRequestsAreTracedAsInASimulation(t *testing.T) {
	t.Parallel()
	here, there := newWorld(t, fake.Config{}), newWorld(t, fake.Config{})
	here.script("remote", everyVerb)
	c := there.Host.Process("remote")
	var done sync.WaitGroup
	done.Add(1)
	c.Spawn("script", func(ctx context.Context) {
		defer done.Done()
		everyVerb(ctx, there.Server.Client(c))
	})
	there.Host.Start()
	done.Wait()
	brief := func(w *world) []string {
		var all []string
		for _, r := range w.Host.Log().Records() {
			all = append(all, fmt.Sprint(r.Task, " ", r.Action, " ", r.Detail, apierrors.ReasonForError(r.Err)))
		}
		return all
	}
	want, got := brief(there), brief(here)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 15 {
		t.Errorf("requests (-world +remote)\n%s\n%s", diff, strings.Join(got, "\n"))
	}
}

// The record of an update shows the change if the process has the replaced object, as written or as
// cached.
func TestUpdatesRecordTheChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.makeVolume("seen")
	c, conn := w.connect("client")
	lister := conn.Informers().Core().V1().PersistentVolumes().Lister()
	done := make(chan struct{})
	c.Worker("script", func() bool { return len(w.requests("client")) == 0 }, func(ctx context.Context) {
		defer close(done)
		seen, err := lister.Get("seen")
		if err != nil {
			panic(err)
		}
		volumes := conn.Client().CoreV1().PersistentVolumes()
		for _, finalizer := range []string{"example.com/a", "example.com/b"} {
			seen = seen.DeepCopy()
			seen.Finalizers = append(seen.Finalizers, finalizer)
			if seen, err = volumes.Update(ctx, seen, metav1.UpdateOptions{}); err != nil {
				panic(err)
			}
		}
		blind := seen.DeepCopy()
		blind.ResourceVersion, blind.Finalizers = "", nil
		if _, err := volumes.Update(ctx, blind, metav1.UpdateOptions{}); err != nil {
			panic(err)
		}
	})
	w.Host.Start()
	<-done
	want := []string{
		"api update persistentvolumes/seen rv=6 finalizers=[example.com/a kubernetes.io/pv-protection]",
		"api update persistentvolumes/seen rv=7 finalizers=[example.com/a example.com/b kubernetes.io/pv-protection]",
		"api update persistentvolumes/seen rv=8",
	}
	if diff := cmp.Diff(want, w.requests("client")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A retry that the server asks for happens outside of the process.
func TestRetryWaitsOutsideTheProcess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	var mu sync.Mutex
	left := 1
	w.intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if req.Method != http.MethodPost || left == 0 {
			return false
		}
		left--
		rw.Header().Set("Retry-After", "1")
		answerStatus(rw, http.StatusTooManyRequests, "TooManyRequests", "later")
		return true
	})
	c, conn := w.connect("client")
	var order []string // accessed by the process's tasks
	finished := make(chan struct{})
	c.Spawn("waits", func(ctx context.Context) {
		defer close(finished)
		_, err := conn.Client().CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		order = append(order, fmt.Sprint("create: ", err))
	})
	c.Worker("reads", func() bool {
		return len(order) == 0 && slices.Contains(w.requests("client"), "api create configmaps/default/m error: later")
	},
		func(ctx context.Context) {
			_, err := conn.Client().CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			order = append(order, fmt.Sprint("get: ", err))
		})
	w.Host.Start()
	<-finished
	if diff := cmp.Diff([]string{"get: <nil>", "create: <nil>"}, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if n := len(w.requests("client")); n != 3 {
		t.Errorf("%d requests, want a refusal, a read and a creation:\n%s", n, w.Host.Log().Text())
	}
}

// A server that always asks to retry is given up after some attempts, and the task receives its
// last answer.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.intercept(func(rw http.ResponseWriter, req *http.Request) bool {
		rw.Header().Set("Retry-After", "0")
		answerStatus(rw, http.StatusTooManyRequests, "TooManyRequests", "later")
		return true
	})
	w.script("client", func(ctx context.Context, client kubernetes.Interface) {
		_, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		if !apierrors.IsTooManyRequests(err) {
			t.Errorf("got %v, want TooManyRequests", err)
		}
	})
	if n := len(w.requests("client")); n != 10 {
		t.Errorf("%d tries, want 10", n)
	}
}

// A request to a server that does not answer times out, and a broken connection is reported at
// once.
func TestTimeoutsAndBrokenConnectionsAreErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.config.Timeout = 100 * time.Millisecond
	w.intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/silent") {
			<-req.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	for name, want := range map[string]string{
		"silent": "API server did not answer in time", "breaks": "",
	} {
		w.script("client-"+name, func(ctx context.Context, client kubernetes.Interface) {
			_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", name, err, want)
			}
		})
		if got := w.requests("client-" + name); len(got) != 1 {
			t.Errorf("%s: requests %q, want one", name, got)
		}
	}
}

// Closing the host lets a write in flight finish, and unwinds its task.
func TestWriteInFlightAtTheEndFinishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	arrived := make(chan struct{})
	w.intercept(func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method == http.MethodPost {
			close(arrived)
			<-w.Host.Context().Done()
		}
		return false
	})
	c, conn := w.connect("client")
	went := make(chan string, 1)
	c.Spawn("script", func(ctx context.Context) {
		defer close(went)
		_, err := conn.Client().CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
		went <- fmt.Sprint("went on: ", err)
	})
	w.Host.Start()
	<-arrived
	w.Host.Close()
	if said, ok := <-went; ok {
		t.Errorf("the task %s", said)
	}
	if got := w.requests("client"); len(got) != 1 || strings.Contains(got[0], "error") {
		t.Errorf("requests %q, want one that succeeded", got)
	}
	testcheck.Must(w.User.CoreV1().ConfigMaps("default").Get(t.Context(), "m", metav1.GetOptions{}))
}

// A lister does not change between two statements of a task, although the server has reported a
// change.
func TestListerIsConstantWithinATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	e := w.watchMaps("other")
	c, conn := w.connect("client")
	lister := conn.Informers().Core().V1().ConfigMaps().Lister().ConfigMaps("default")
	has := func() bool {
		_, err := lister.Get("m")
		return err == nil
	}
	reading, delivered := make(chan struct{}), make(chan struct{})
	done := make(chan [3]bool)
	once := false
	c.Worker("reads", func() bool { return !once }, func(context.Context) {
		once = true
		before := has()
		close(reading)
		<-delivered // in the middle of a task: nothing else of the process may run
		during := has()
		after := c.Wait("the change", 30*time.Second, has)
		done <- [3]bool{before, during, after}
	})
	w.Host.Start()
	<-reading
	w.makeMap("m", "1")
	w.Until("the delivery to the other process", func() bool { return len(e.all()) == 1 })
	close(delivered)
	if got := <-done; got != [3]bool{false, false, true} {
		t.Errorf("the object is there before, during and after: %v, want only after", got)
	}
}
