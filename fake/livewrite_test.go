package fake_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// liveServer returns a server whose clients call through a live host.
func liveServer(t *testing.T) (*fake.Server, *sim.Live) {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	t.Cleanup(host.Close)
	host.Start()
	return fake.NewServer(fake.Config{Now: host.Now}), host
}

// TestSlowWriteBlocksNoOther validates one object until a write and a read of others have returned.
func TestSlowWriteBlocksNoOther(t *testing.T) {
	server, host := liveServer(t)
	validating, others := make(chan struct{}), make(chan struct{})
	server.Install(fake.CustomKind{
		Group: "example.com", Versions: []string{"v1"}, Resource: "widgets", Singular: "widget",
		Kind: "Widget", ListKind: "WidgetList", Namespaced: true,
		Validate: func(_, _ *fake.CustomObject) field.ErrorList {
			close(validating)
			select {
			case <-others:
			case <-t.Context().Done():
			}
			return nil
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only if it fails
	defer cancel()
	var slow sync.WaitGroup
	slow.Go(func() {
		widget := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
		}}
		client := server.Client(host.ExternalCaller()).Dynamic()
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		if _, err := client.Resource(gvr).Namespace("default").Create(ctx, widget, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	})
	<-validating
	quick := make(chan error, 1)
	go func() {
		maps := server.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
		if err == nil {
			_, err = maps.Get(ctx, "c", metav1.GetOptions{})
		}
		quick <- err
	}()
	select {
	case err := <-quick:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("a slow write blocks the others")
	}
	close(others)
	slow.Wait()
	var log []string
	for _, r := range host.Log().Records() {
		log = append(log, r.Verb+" "+r.Object)
	}
	want := "create configmaps/default/c, get configmaps/default/c, create widgets/default/w"
	if got := strings.Join(log, ", "); got != want {
		t.Errorf("log: %s\nwant: %s", got, want)
	}
}

// TestLiveLogHasCausesFirst: what a request has seen was written by a request that is before it in
// the log, and conflicts follow the write that caused them.
func TestLiveLogHasCausesFirst(t *testing.T) {
	server, host := liveServer(t)
	const writers, rounds = 4, 300
	maps := server.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := range rounds {
				stored, err := maps.Get(t.Context(), "c", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				stored.Data = map[string]string{"writer": strconv.Itoa(i), "round": strconv.Itoa(n)}
				if _, err := maps.Update(t.Context(), stored, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()

	last, conflicts := int64(0), 0
	for _, r := range host.Log().Records() {
		seen, _ := strconv.ParseInt(strings.TrimPrefix(r.Detail, "rv="), 10, 64)
		switch {
		case r.After != nil && seen <= last:
			t.Fatalf("step %d: %s wrote revision %d after %d", r.Step, r.Verb, seen, last)
		case r.After != nil:
			last = seen
		case seen > last:
			t.Fatalf("step %d: %s saw revision %d, which nothing has written before; the last is %d", r.Step, r.Verb, seen, last)
		case apierrors.IsConflict(r.Err):
			conflicts++
		}
	}
	if written := countWrites(host.Log()); written+conflicts != writers*rounds+1 {
		t.Errorf("%d writes and %d conflicts, want %d together", written, conflicts, writers*rounds+1)
	}
}

func countWrites(log *trace.Log) (n int) {
	for _, r := range log.Records() {
		if r.After != nil {
			n++
		}
	}
	return n
}
