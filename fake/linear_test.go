package fake_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// asked is a request for one object; revision is its precondition, 0 if none.
type asked struct {
	verb, key string
	revision  int64
}

// answered is the response: the object's new revision, or an error.
type answered struct {
	revision int64
	reason   metav1.StatusReason
}

// object is the model of one object: its revision, 0 if it does not exist, and its last revision.
type object struct{ is, last int64 }

// perObject is the sequential specification of one object: revisions rise, preconditions hold.
var perObject = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(asked).key
			byKey[key] = append(byKey[key], op)
		}
		var parts [][]porcupine.Operation
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() any { return object{} },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(object), input.(asked), output.(answered))
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

func step(o object, in asked, out answered) (bool, object) {
	refused := func(why metav1.StatusReason) (bool, object) { return out.reason == why, o }
	switch {
	case in.verb == "create" && o.is > 0:
		return refused(metav1.StatusReasonAlreadyExists)
	case in.verb != "create" && o.is == 0:
		return refused(metav1.StatusReasonNotFound)
	case in.revision > 0 && in.revision != o.is:
		return refused(metav1.StatusReasonConflict)
	case out.reason != "":
		return false, o
	case in.verb == "get":
		return out.revision == o.is, o
	case in.verb == "delete":
		return true, object{last: o.last}
	}
	return out.revision > o.last, object{out.revision, out.revision}
}

// recorder records requests and responses with their times.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (r *recorder) do(client int, in asked, request func() (int64, error)) int64 {
	begin := r.clock.Add(1)
	revision, err := request()
	out := answered{revision, apierrors.ReasonForError(err)}
	if err != nil {
		out.revision = 0
	}
	op := porcupine.Operation{ClientId: client, Input: in, Call: begin, Output: out, Return: r.clock.Add(1)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
	return out.revision
}

// work makes n random requests, some of them with a stale revision.
func (r *recorder) work(ctx context.Context, client int, maps typedcorev1.ConfigMapInterface, n int) {
	random := rand.New(rand.NewPCG(uint64(client), 7))
	known := map[string]int64{}
	for i := range n {
		in := asked{
			verb: []string{"create", "update", "update", "delete", "get"}[random.IntN(5)],
			key:  fmt.Sprint("k", random.IntN(4)),
		}
		if in.verb == "update" || in.verb == "delete" {
			in.revision = []int64{0, known[in.key], known[in.key], 1}[random.IntN(4)]
		}
		if got := r.do(client, in, func() (int64, error) { return request(ctx, maps, in, fmt.Sprint(client, "-", i)) }); got > 0 {
			known[in.key] = got
		}
	}
}

func request(ctx context.Context, maps typedcorev1.ConfigMapInterface, in asked, value string) (int64, error) {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: in.key}, Data: map[string]string{"k": value}}
	var err error
	switch in.verb {
	case "create":
		obj, err = maps.Create(ctx, obj, metav1.CreateOptions{})
	case "update":
		if in.revision > 0 {
			obj.ResourceVersion = strconv.FormatInt(in.revision, 10)
		}
		obj, err = maps.Update(ctx, obj, metav1.UpdateOptions{})
	case "delete":
		var opts metav1.DeleteOptions
		if in.revision > 0 {
			opts.Preconditions = &metav1.Preconditions{ResourceVersion: ptr.To(strconv.FormatInt(in.revision, 10))}
		}
		return 0, maps.Delete(ctx, in.key, opts)
	case "get":
		obj, err = maps.Get(ctx, in.key, metav1.GetOptions{})
	}
	if err != nil {
		return 0, err
	}
	revision, err := strconv.ParseInt(obj.ResourceVersion, 10, 64)
	return revision, err
}

// liveMaps returns a server on a live host, and a client of its config maps.
func liveMaps(t *testing.T) (*fake.Server, typedcorev1.ConfigMapInterface) {
	t.Helper()
	host := sim.NewLive(sim.LiveConfig{})
	host.Start()
	t.Cleanup(host.Close)
	s := fake.NewServer(fake.Config{Now: host.Now})
	return s, s.Client(host.ExternalCaller()).CoreV1().ConfigMaps("default")
}

// checkMax limits the time to check a history.
const checkMax = 30 * time.Second

// Concurrent clients race for a few objects. Their history is linearizable for each object. Over
// all objects, each revision belongs to one write.
func TestRequestsAreLinearizable(t *testing.T) {
	s, maps := liveMaps(t)
	var mu sync.Mutex
	written := map[int64]string{}
	s.OnCommit(func(c fake.Commit) {
		mu.Lock()
		defer mu.Unlock()
		if other, ok := written[c.Revision]; ok {
			t.Errorf("revision %d is of %s and of %s", c.Revision, other, c.After.GetName())
		}
		written[c.Revision] = c.After.GetName()
	})
	var r recorder
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() { r.work(t.Context(), client, maps, 150) })
	}
	clients.Wait()
	if got := porcupine.CheckOperationsTimeout(perObject, r.ops, checkMax); got != porcupine.Ok {
		t.Errorf("a history of %d requests is %s", len(r.ops), got)
	}
	if len(written) < 100 {
		t.Errorf("only %d of %d requests wrote", len(written), len(r.ops))
	}
}

// checksThenActs is a broken client: its updates check the revision and then write, not atomically.
type checksThenActs struct {
	typedcorev1.ConfigMapInterface
	between func()
}

func (c checksThenActs) Update(ctx context.Context, obj *corev1.ConfigMap,
	opts metav1.UpdateOptions,
) (*corev1.ConfigMap, error) {
	is, err := c.Get(ctx, obj.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if obj.ResourceVersion != is.ResourceVersion {
		return nil, apierrors.NewConflict(corev1.Resource("configmaps"), obj.Name, nil)
	}
	c.between()
	obj.ResourceVersion = ""
	return c.ConfigMapInterface.Update(ctx, obj, opts)
}

// forgets is a broken client: its deletions do nothing.
type forgets struct{ typedcorev1.ConfigMapInterface }

func (forgets) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }

// reads is a broken client: its reads are stale.
type reads struct {
	typedcorev1.ConfigMapInterface
	first *corev1.ConfigMap
}

func (r reads) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return r.first, nil
}

// Each broken client is found.
func TestNonLinearizableClientsAreFound(t *testing.T) {
	for _, test := range []struct {
		name   string
		mutant func(maps typedcorev1.ConfigMapInterface, first *corev1.ConfigMap, other func()) typedcorev1.ConfigMapInterface
		verb   string
		want   porcupine.CheckResult
	}{
		{"the server", func(maps typedcorev1.ConfigMapInterface, _ *corev1.ConfigMap, other func()) typedcorev1.ConfigMapInterface {
			other()
			return maps
		}, "update", porcupine.Ok},
		{"check, then act", func(maps typedcorev1.ConfigMapInterface, _ *corev1.ConfigMap, other func()) typedcorev1.ConfigMapInterface {
			return checksThenActs{maps, other}
		}, "update", porcupine.Illegal},
		{"lost deletion", func(maps typedcorev1.ConfigMapInterface, _ *corev1.ConfigMap, _ func()) typedcorev1.ConfigMapInterface {
			return forgets{maps}
		}, "delete", porcupine.Illegal},
		{"stale read", func(maps typedcorev1.ConfigMapInterface, first *corev1.ConfigMap, other func()) typedcorev1.ConfigMapInterface {
			other()
			return reads{maps, first}
		}, "get", porcupine.Illegal},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, maps := liveMaps(t)
			var r recorder
			ctx := t.Context()
			do := func(client int, maps typedcorev1.ConfigMapInterface, in asked) int64 {
				return r.do(client, in, func() (int64, error) { return request(ctx, maps, in, fmt.Sprint(client)) })
			}
			revision := do(1, maps, asked{verb: "create", key: "k"})
			first := testcheck.Must(maps.Get(ctx, "k", metav1.GetOptions{}))
			broken := test.mutant(maps, first, func() { do(2, maps, asked{verb: "update", key: "k", revision: revision}) })
			in := asked{verb: test.verb, key: "k"}
			if test.verb == "update" {
				in.revision = revision
			}
			do(1, broken, in)
			do(3, maps, asked{verb: "get", key: "k"})
			expect(t, porcupine.CheckOperationsTimeout(perObject, r.ops, checkMax), test.want)
		})
	}
}
