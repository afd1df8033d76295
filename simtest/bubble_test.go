package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/simtest"
)

// clients holds the kinds of clients of a controller.
var clients = []struct {
	name string
	make func(b *simtest.BubbleWorld, name string) kubernetes.Interface
}{
	{"clientset", func(b *simtest.BubbleWorld, name string) kubernetes.Interface { return b.Client(name) }},
	{"rest config", func(b *simtest.BubbleWorld, name string) kubernetes.Interface {
		return kubernetes.NewForConfigOrDie(b.RESTConfig(name))
	}},
}

// protected runs a protector for a claim that a user starts to use and then deletes, among untouched
// claims. It reports whether the claim was removed nevertheless, and returns the trace.
func protected(t *testing.T, chooser sim.Chooser, others int, live bool, client func(*simtest.BubbleWorld, string) kubernetes.Interface) (bool, string) {
	t.Helper()
	broken, text := false, ""
	simtest.Bubble(t, chooser, func(t *testing.T, b *simtest.BubbleWorld) {
		broken = protect(t, b, others, live, client)
		text = b.Trace().Text()
	})
	return broken, text
}

func protect(t *testing.T, b *simtest.BubbleWorld, others int, live bool, client func(*simtest.BubbleWorld, string) kubernetes.Interface) bool {
	t.Helper()
	controller := &protector{client: client(b, "protector"), live: live}
	go controller.run(b.Context())
	b.Settle(time.Second)
	user := b.Client("user")
	for i := range others {
		create(t, user, newClaim(fmt.Sprintf("other-%d", i)))
	}
	create(t, user, newClaim("data"))
	create(t, user, newPod("app", "data"))
	if err := user.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Settle(time.Minute)
	_, stays := b.Server().Get("persistentvolumeclaims", "default", "data")
	return !stays
}

// TestABubbleFindsWhatAStaleCacheBreaks has two controllers that differ in one live list: what one of them decides from
// its cache alone is wrong for some seed, the other is right for all of them.
func TestABubbleFindsWhatAStaleCacheBreaks(t *testing.T) {
	const seeds = 40
	for _, way := range clients {
		t.Run(way.name, func(t *testing.T) {
			found := 0
			for seed := range uint64(seeds) {
				if broken, _ := protected(t, sim.NewSeeded(seed), 0, false, way.make); broken {
					found++
				}
				if broken, text := protected(t, sim.NewSeeded(seed), 0, true, way.make); broken {
					t.Errorf("seed %d: the claim went although the controller asked\n%s", seed, text)
				}
			}
			if found == 0 {
				t.Errorf("no seed of %d shows that the controller trusts its cache", seeds)
			}
			if broken, text := protected(t, sim.FIFO{}, 0, false, way.make); broken {
				t.Errorf("violated in the default order\n%s", text)
			}
		})
	}
}

// TestAFailureIsReplayedByItsChoices takes the choices of a run that broke the rule, and breaks it again.
func TestAFailureIsReplayedByItsChoices(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for seed := range uint64(40) {
		recorder := &sim.Recorder{Chooser: sim.NewSeeded(seed)}
		broken, text := protected(t, recorder, 2, false, clients[0].make)
		if !broken {
			continue
		}
		again, same := protected(t, &sim.Replay{Choices: recorder.Choices}, 2, false, clients[0].make)
		if !again {
			t.Errorf("seed %d: not broken when replayed", seed)
		}
		if diff := cmp.Diff(text, same); diff != "" {
			t.Errorf("seed %d (-first +replayed)\n%s", seed, diff)
		}
		return
	}
	t.Error("no seed breaks the rule")
}

// TestSameSeedGivesTheSameTrace holds for one processor, and a controller that does not go by the order of a map.
func TestSameSeedGivesTheSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	different := map[string]bool{}
	for seed := range uint64(10) {
		_, first := protected(t, sim.NewSeeded(seed), 4, true, clients[0].make)
		different[first] = true
		for range 5 {
			_, again := protected(t, sim.NewSeeded(seed), 4, true, clients[0].make)
			if diff := cmp.Diff(first, again); diff != "" {
				t.Fatalf("seed %d (-first +again)\n%s", seed, diff)
			}
		}
		simtest.BubbleTwice(t, func() sim.Chooser { return sim.NewSeeded(seed) }, func(t *testing.T, b *simtest.BubbleWorld) {
			protect(t, b, 4, true, clients[0].make)
		})
	}
	if len(different) < 5 {
		t.Errorf("10 seeds gave %d traces", len(different))
	}
}

// twoUsers has two goroutines write two objects each.
func twoUsers(t *testing.T, b *simtest.BubbleWorld) {
	t.Helper()
	for _, name := range []string{"one", "two"} {
		maps := b.Client(name).CoreV1().ConfigMaps("default")
		go func() {
			for _, component := range []string{"a", "b"} {
				_, err := maps.Create(b.Context(), newMap(name+"-"+component), metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	b.Settle(0)
}

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// did lists the requests and deliveries in a trace.
func did(b *simtest.BubbleWorld) []string {
	var all []string
	for _, r := range b.Trace().Records() {
		all = append(all, r.Task+": "+r.Action.String())
	}
	return all
}

// TestTheChooserOrdersRequests checks the default order and a deviation from it.
func TestTheChooserOrdersRequests(t *testing.T) {
	for _, test := range []struct {
		name    string
		choices []int
		want    []string
	}{
		{"who waited longest", nil, []string{"one-a", "two-a", "one-b", "two-b"}},
		{"the second first", []int{1}, []string{"two-a", "one-a", "two-b", "one-b"}},
		{"one after the other", []int{0, 1}, []string{"one-a", "one-b", "two-a", "two-b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			simtest.Bubble(t, &sim.Replay{Choices: test.choices}, func(t *testing.T, b *simtest.BubbleWorld) {
				twoUsers(t, b)
				var want []string
				for _, name := range test.want {
					want = append(want, name[:3]+": api create configmaps/default/"+name)
				}
				if diff := cmp.Diff(want, did(b)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestDeliveriesComeFirst checks a watcher in the default order: a delivery precedes earlier writes.
func TestDeliveriesComeFirst(t *testing.T) {
	simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
		stream, err := watchers[0].open(b.Context(), b, metav1.ListOptions{ResourceVersion: fmt.Sprint(b.Server().Revision())})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range stream.ResultChan() {
			}
		}()
		for _, name := range []string{"a", "b"} {
			go func() {
				_, _ = b.Client(name).CoreV1().ConfigMaps("default").Create(b.Context(), newMap(name), metav1.CreateOptions{})
			}()
		}
		b.Settle(0)
		want := []string{
			"watcher: api watch configmaps/default",
			"a: api create configmaps/default/a", "watcher: deliver ADDED configmaps/default/a",
			"b: api create configmaps/default/b", "watcher: deliver ADDED configmaps/default/b",
		}
		if diff := cmp.Diff(want, did(b)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// watchers open watches, by the ways there are.
var watchers = []struct {
	name string
	open func(ctx context.Context, b *simtest.BubbleWorld, opts metav1.ListOptions) (watch.Interface, error)
}{
	{"clientset", func(ctx context.Context, b *simtest.BubbleWorld, opts metav1.ListOptions) (watch.Interface, error) {
		return b.Client("watcher").CoreV1().ConfigMaps("default").Watch(ctx, opts)
	}},
	{"rest config", func(ctx context.Context, b *simtest.BubbleWorld, opts metav1.ListOptions) (watch.Interface, error) {
		return kubernetes.NewForConfigOrDie(b.RESTConfig("watcher")).CoreV1().ConfigMaps("default").Watch(ctx, opts)
	}},
	{"rest config, dynamic", func(ctx context.Context, b *simtest.BubbleWorld, opts metav1.ListOptions) (watch.Interface, error) {
		maps := dynamic.NewForConfigOrDie(b.RESTConfig("watcher")).Resource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		return maps.Namespace("default").Watch(ctx, opts)
	}},
}

// TestEventsAreDeliveredOneAtATime checks that the chooser decides each delivery to a watcher, and that
// each delivery is a record.
func TestEventsAreDeliveredOneAtATime(t *testing.T) {
	for _, way := range watchers {
		t.Run(way.name, func(t *testing.T) {
			late := latest{}
			simtest.Bubble(t, late, func(t *testing.T, b *simtest.BubbleWorld) {
				create := func(name string) {
					if _, err := b.Client("writer").CoreV1().ConfigMaps("default").Create(b.Context(), newMap(name), metav1.CreateOptions{}); err != nil {
						t.Error(err)
					}
				}
				stream, err := way.open(b.Context(), b, metav1.ListOptions{ResourceVersion: fmt.Sprint(b.Server().Revision())})
				if err != nil {
					t.Fatal(err)
				}
				defer stream.Stop()
				var seen []string
				go func() {
					for e := range stream.ResultChan() {
						obj := e.Object.(metav1.Object)
						seen = append(seen, string(e.Type)+" "+obj.GetName())
					}
				}()
				for _, name := range []string{"a", "b", "c"} {
					create(name)
				}
				if len(seen) > 0 {
					t.Errorf("seen before anything was delivered: %v", seen)
				}
				b.Settle(0)
				if diff := cmp.Diff([]string{"ADDED a", "ADDED b", "ADDED c"}, seen); diff != "" {
					t.Errorf("seen (-want +got)\n%s", diff)
				}
				want := []string{
					"watcher: api watch configmaps/default",
					"writer: api create configmaps/default/a", "writer: api create configmaps/default/b", "writer: api create configmaps/default/c",
					"watcher: deliver ADDED configmaps/default/a", "watcher: deliver ADDED configmaps/default/b", "watcher: deliver ADDED configmaps/default/c",
				}
				if diff := cmp.Diff(want, did(b)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// latest chooses the last: the delivery comes after the request.
type latest struct{}

func (latest) Choose(n int) int { return n - 1 }

// TestInitialEventsAreOneDelivery opens a watch that lists first, as informers do.
func TestInitialEventsAreOneDelivery(t *testing.T) {
	yes := true
	for _, way := range watchers {
		t.Run(way.name, func(t *testing.T) {
			simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
				for _, name := range []string{"a", "b"} {
					if _, err := b.Direct().CoreV1().ConfigMaps("default").Create(b.Context(), newMap(name), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				stream, err := way.open(b.Context(), b, metav1.ListOptions{
					SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
				})
				if err != nil {
					t.Fatal(err)
				}
				var seen []watch.EventType
				go func() {
					for e := range stream.ResultChan() {
						seen = append(seen, e.Type)
					}
				}()
				b.Settle(0)
				stream.Stop()
				if want := []watch.EventType{watch.Added, watch.Added, watch.Added, watch.Bookmark}; !slices.Equal(want, seen) {
					t.Errorf("want %v, got %v", want, seen) // kube-root-ca.crt is there from the beginning
				}
				records := b.Trace().Records()
				last := records[len(records)-1]
				if got := last.Action.String() + " " + last.Detail; !strings.HasPrefix(got, "deliver LIST configmaps/default 3 items rv=") && !strings.HasPrefix(got, "deliver LIST configmaps 3 items rv=") {
					t.Errorf("last record: %s", got)
				}
			})
		})
	}
}

// TestCancelledRequestDoesNotWait cancels a blocked request: it has no effect and no record, and is not
// an alternative for the chooser.
func TestCancelledRequestDoesNotWait(t *testing.T) {
	for _, way := range clients {
		t.Run(way.name, func(t *testing.T) {
			recorder := &sim.Recorder{Chooser: sim.FIFO{}}
			simtest.Bubble(t, recorder, func(t *testing.T, b *simtest.BubbleWorld) {
				ctx, cancel := context.WithCancel(b.Context())
				maps := way.make(b, "hasty").CoreV1().ConfigMaps("default")
				var failed error
				go func() { _, failed = maps.Create(ctx, newMap("a"), metav1.CreateOptions{}) }()
				go func() {
					another := b.Caller("another")
					another.Call(trace.Action{Kind: trace.KindWork, Verb: "cancel"}, func() trace.Outcome { cancel(); return trace.Outcome{} })
					another.Call(trace.Action{Kind: trace.KindWork, Verb: "go-on"}, func() trace.Outcome { return trace.Outcome{} })
				}()
				b.Settle(0)
				if !errors.Is(failed, context.Canceled) {
					t.Errorf("got %v", failed)
				}
				if _, ok := b.Server().Get("configmaps", "default", "a"); ok {
					t.Error("it took effect")
				}
				if diff := cmp.Diff([]string{"another: work cancel", "another: work go-on"}, did(b)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
			if got := len(recorder.Choices); got != 1 {
				t.Errorf("there was something to choose %d times, not only before it gave up", got)
			}
		})
	}
}

// TestTimePassesWhenNothingElseCan has a request wait for a timer, and none for a minute's timeout.
func TestTimePassesWhenNothingElseCan(t *testing.T) {
	simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
		maps := b.Client("late").CoreV1().ConfigMaps("default")
		go func() {
			time.Sleep(time.Hour)
			_, _ = maps.Create(b.Context(), newMap("a"), metav1.CreateOptions{})
		}()
		b.Settle(time.Hour - time.Second)
		if got := b.Trace().Steps(); got != 0 {
			t.Errorf("after less than an hour: %d steps", got)
		}
		b.Settle(time.Second)
		records := b.Trace().Records()
		if len(records) != 1 || records[0].At != time.Hour {
			t.Errorf("after an hour: %s", b.Trace().Text())
		}
	})
}

// TestTimeMayPassWhileARequestWaits checks that a request times out only under Slow.
func TestTimeMayPassWhileARequestWaits(t *testing.T) {
	for _, test := range []struct {
		slow    time.Duration
		choices []int // 1 is the last where there is one request
		want    error
		steps   []string
	}{
		{0, []int{1}, nil, []string{"hasty: api get configmaps/default/a"}},
		{time.Minute, []int{0}, nil, []string{"hasty: api get configmaps/default/a"}},
		{time.Second, []int{1}, nil, []string{"world: event tick", "hasty: api get configmaps/default/a"}},
		{time.Minute, []int{1}, context.DeadlineExceeded, []string{"world: event tick"}},
	} {
		t.Run(fmt.Sprint(test.slow, test.choices), func(t *testing.T) {
			simtest.Bubble(t, &sim.Replay{Choices: test.choices}, func(t *testing.T, b *simtest.BubbleWorld) {
				b.Slow(test.slow)
				ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
				defer cancel()
				_, err := b.Client("hasty").CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
				if test.want == nil && !apierrors.IsNotFound(err) || test.want != nil && !errors.Is(err, test.want) {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(test.steps, did(b)); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

// TestAfterTheRunRequestsAreRefused checks that a goroutine without a context ends as well.
func TestAfterTheRunRequestsAreRefused(t *testing.T) {
	var stopped, later error
	simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
		t.Cleanup(func() { // the bubble still is there
			_, later = b.Client("late").CoreV1().ConfigMaps("default").Get(context.Background(), "a", metav1.GetOptions{})
		})
		go func() {
			time.Sleep(time.Second) // until when run has returned: there is a minute left
			_, stopped = b.Client("stubborn").CoreV1().ConfigMaps("default").Get(context.Background(), "a", metav1.GetOptions{})
		}()
	})
	for what, err := range map[string]error{"while cleaning up": later, "after that": stopped} {
		if err == nil || !strings.Contains(err.Error(), "the run of the bubble has ended") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// TestADriverIsStoppedLikeARequest makes a call that is none of the API server's.
func TestADriverIsStoppedLikeARequest(t *testing.T) {
	simtest.Bubble(t, &sim.Replay{Choices: []int{1}}, func(t *testing.T, b *simtest.BubbleWorld) {
		for _, name := range []string{"one", "two"} {
			caller := b.Caller(name)
			go caller.Call(trace.Action{Kind: trace.KindDriver, Verb: "CreateVolume", Object: name}, func() trace.Outcome { return trace.Outcome{} })
		}
		b.Settle(0)
		want := []string{"two: driver CreateVolume two", "one: driver CreateVolume one"}
		if diff := cmp.Diff(want, did(b)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// Code in a bubble notes its conditions in the trace of the bubble.
func TestBubbleConditions(t *testing.T) {
	simtest.Bubble(t, sim.FIFO{}, func(t *testing.T, b *simtest.BubbleWorld) {
		trace.Sometimes(b.Context(), "never", false)
		trace.Reachable(b.Context(), "here")
		testcheck.Equal(t, "conditions", "[{here 1 1} {never 1 0}]", fmt.Sprint(b.Trace().Conditions()))
	})
}
