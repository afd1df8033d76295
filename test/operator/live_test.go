package operator_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/simtest"
	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
)

// patience is how long a test waits for something that must happen. It takes some 100 ms.
const patience = 3 * time.Second

// A world is a live cluster in which the operator runs.
type world struct {
	*testing.T
	client.Client
	cluster *cluster.Cluster
	stop    func() // ends the operator
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := simtest.Start(t, cluster.Config{Nodes: 1, Devices: cluster.Array, CRDDirectoryPaths: []string{"config/crd"}})
	w := &world{T: t, cluster: c}
	var err error
	w.Client, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme})
	w.must(err)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start starts the operator, as its program does.
func (w *world) start() {
	w.Helper()
	mgr, err := ctrl.NewManager(w.cluster.RESTConfig(), ctrl.Options{
		Scheme: scheme, Logger: log.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	w.must(err)
	w.must(setup(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		w.stop = func() {}
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually waits until a condition holds.
func (w *world) eventually(what string, cond func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("after %v: not %s", patience, what)
		}
	}
}

// consistently fails unless a condition holds for some time.
func (w *world) consistently(what string, cond func() bool) {
	w.Helper()
	for deadline := time.Now().Add(200 * time.Millisecond); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !cond() {
			w.Fatalf("not %s", what)
		}
	}
}

// ready waits until the Database is ready, with a claim of a size and a pod for each replica.
func (w *world) ready(replicas int, storage string) {
	w.Helper()
	w.eventually("ready", func() bool {
		var db dbv1.Database
		w.must(w.Get(w.Context(), client.ObjectKeyFromObject(database(0, "0")), &db))
		claims, pods := w.objects()
		for _, claim := range claims {
			if size := claim.Status.Capacity[corev1.ResourceStorage]; size.Cmp(resource.MustParse(storage)) != 0 {
				return false
			}
		}
		return meta.IsStatusConditionTrue(db.Status.Conditions, dbv1.ConditionReady) &&
			db.Status.ObservedGeneration == db.Generation && len(claims) == replicas && len(pods) == replicas
	})
}

// gone waits until no claims and pods are left.
func (w *world) gone() {
	w.Helper()
	w.eventually("gone", func() bool {
		claims, pods := w.objects()
		return len(claims)+len(pods) == 0
	})
}

func (w *world) objects() ([]corev1.PersistentVolumeClaim, []corev1.Pod) {
	w.Helper()
	var claims corev1.PersistentVolumeClaimList
	var pods corev1.PodList
	w.must(w.List(w.Context(), &claims))
	w.must(w.List(w.Context(), &pods))
	return claims.Items, pods.Items
}

func (w *world) create(replicas int32) {
	w.Helper()
	w.must(w.Create(w.Context(), database(replicas, "1Gi")))
}

func (w *world) patch(merge string) {
	w.Helper()
	w.must(patch(w.Context(), w.Client, merge))
}

func TestLive(t *testing.T) {
	for name, test := range map[string]func(w *world){
		"creates, grows and scales": func(w *world) {
			w.create(2)
			w.ready(2, "1Gi")
			w.patch(`{"spec":{"storage":"2Gi"}}`)
			w.ready(2, "2Gi")
			w.patch(`{"spec":{"replicas":3,"storage":"3Gi"}}`)
			w.ready(3, "3Gi")
			w.patch(`{"spec":{"replicas":1}}`)
			w.ready(1, "3Gi")
		},
		"many changes at once": func(w *world) {
			w.must(act(w.Context(), w.cluster, 1, `{"metadata":{"labels":{"team":"a"}}}`,
				`{"spec":{"replicas":3}}`, `{"spec":{"storage":"2Gi"}}`, `{"metadata":{"labels":{"team":"b"}}}`))
			w.ready(3, "2Gi")
			w.patch(`{"spec":{"replicas":1}}`)
			w.patch(`{"spec":{"replicas":2}}`)
			w.ready(2, "2Gi")
		},
		"creates a deleted pod again": func(w *world) {
			w.create(2)
			w.ready(2, "1Gi")
			_, pods := w.objects()
			w.must(w.Delete(w.Context(), &pods[0]))
			w.eventually("another pod", func() bool {
				_, now := w.objects()
				return len(now) == 2 && now[0].UID != pods[0].UID
			})
			w.ready(2, "1Gi")
		},
		"keeps the claim of a terminating pod": func(w *world) {
			w.create(2)
			w.ready(2, "1Gi")
			_, pods := w.objects()
			controllerutil.AddFinalizer(&pods[1], "example.com/keeps-it-terminating")
			w.must(w.Update(w.Context(), &pods[1]))
			w.patch(`{"spec":{"replicas":1}}`)
			w.eventually("terminating", func() bool {
				_, now := w.objects()
				return !now[1].DeletionTimestamp.IsZero()
			})
			w.consistently("kept", func() bool {
				claims, _ := w.objects()
				return len(claims) == 2 && claims[1].DeletionTimestamp.IsZero()
			})
			var pod corev1.Pod
			w.must(w.Get(w.Context(), client.ObjectKeyFromObject(&pods[1]), &pod))
			controllerutil.RemoveFinalizer(&pod, "example.com/keeps-it-terminating")
			w.must(w.Update(w.Context(), &pod))
			w.ready(1, "1Gi")
		},
		"retains claims and uses them again": func(w *world) {
			w.create(2)
			w.patch(`{"spec":{"claimPolicy":"Retain"}}`)
			w.ready(2, "1Gi")
			before, _ := w.objects()
			w.patch(`{"spec":{"replicas":1}}`)
			w.eventually("scaled down", func() bool {
				_, pods := w.objects()
				return len(pods) == 1
			})
			w.patch(`{"spec":{"replicas":2}}`)
			w.ready(2, "1Gi")
			if after, _ := w.objects(); after[1].UID != before[1].UID {
				w.Error("another claim")
			}
		},
		"cleans up": func(w *world) {
			w.create(2)
			w.ready(2, "1Gi")
			w.must(w.Delete(w.Context(), database(0, "0")))
			w.gone()
		},
		"cleans up what was just created": func(w *world) {
			w.create(2)
			w.eventually("a claim", func() bool {
				claims, _ := w.objects()
				return len(claims) > 0
			})
			w.must(w.Delete(w.Context(), database(0, "0")))
			w.eventually("deleted", func() bool {
				return apierrors.IsNotFound(w.Get(w.Context(), client.ObjectKeyFromObject(database(0, "0")), database(0, "0")))
			})
			w.gone()
		},
		"survives restarts": func(w *world) {
			w.create(2)
			w.stop()
			w.start()
			w.ready(2, "1Gi")
			w.patch(`{"spec":{"replicas":3,"storage":"2Gi"}}`)
			w.stop()
			w.start()
			w.ready(3, "2Gi")
		},
	} {
		t.Run(name, func(t *testing.T) { test(newWorld(t)) })
	}
}
