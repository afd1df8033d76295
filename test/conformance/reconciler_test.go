package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/sim/trace"
)

// A namer is a controller-runtime reconciler that labels each volume with the name of its claim.
// Its field save determines how it writes.
type namer struct {
	client.Client
	save func(ctx context.Context, c client.Client, was, is *corev1.PersistentVolume) error
}

// Reconcile labels one volume.
func (n namer) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	was := &corev1.PersistentVolume{}
	if err := n.Get(ctx, r.NamespacedName, was); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if was.Spec.ClaimRef == nil || was.Labels["claim"] != "" {
		return reconcile.Result{}, nil
	}
	is := was.DeepCopy()
	metav1.SetMetaDataLabel(&is.ObjectMeta, "claim", was.Spec.ClaimRef.Name)
	return reconcile.Result{}, n.save(ctx, n.Client, was, is)
}

func update(ctx context.Context, c client.Client, _, is *corev1.PersistentVolume) error {
	return c.Update(ctx, is)
}

func updateUnconditionally(ctx context.Context, c client.Client, _, is *corev1.PersistentVolume) error {
	is.ResourceVersion = ""
	return c.Update(ctx, is)
}

func mergePatch(ctx context.Context, c client.Client, was, is *corev1.PersistentVolume) error {
	return client.IgnoreNotFound(c.Patch(ctx, is, client.MergeFrom(was)))
}

// A volumesFrom reads volumes from a lister, which lags like a manager's cache.
type volumesFrom struct {
	corelisters.PersistentVolumeLister
}

// Get copies a volume from the cache.
func (v volumesFrom) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	volume, err := v.PersistentVolumeLister.Get(key.Name)
	if err != nil {
		return err
	}
	volume.DeepCopyInto(obj.(*corev1.PersistentVolume))
	return nil
}

// List is not used.
func (v volumesFrom) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewMethodNotSupported(corev1.Resource("persistentvolumes"), "list")
}

// namerComponent returns a component that runs a namer, whose client reads from the server or from
// a cache.
func namerComponent(cached bool, save func(context.Context, client.Client, *corev1.PersistentVolume, *corev1.PersistentVolume) error) cluster.Component {
	mapper := meta.NewDefaultRESTMapper(nil) // avoids discovery in each run
	mapper.Add(corev1.SchemeGroupVersion.WithKind("PersistentVolume"), meta.RESTScopeRoot)
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "namer", For: "persistentvolumes",
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			options := client.Options{Scheme: clientscheme.Scheme, Mapper: mapper}
			if cached {
				options.Cache = &client.CacheOptions{Reader: volumesFrom{p.Informers.Core().V1().PersistentVolumes().Lister()}}
			}
			c, err := client.New(p.RESTConfig(), options)
			if err != nil {
				return nil, err
			}
			var r reconcile.Reconciler = namer{c, save}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: key})
				return result.RequeueAfter, err
			}, nil
		},
	})
}

const keep = `
components: pvcontroller, pvcprotection, pvprotection, provisioner
user alice
  create claim data 1Gi
  wait claim data Bound
  set claim data reclaim=Retain
  delete claim data
`

// TestLostUpdatesOfControllerRuntime searches for a schedule in which a controller-runtime
// reconciler loses another client's write. The search finds one if the reconciler writes
// unconditionally, whether it reads from the server or from a cache, and none otherwise.
func TestLostUpdatesOfControllerRuntime(t *testing.T) {
	for _, cached := range []bool{false, true} {
		for _, tt := range []struct {
			name string
			save func(context.Context, client.Client, *corev1.PersistentVolume, *corev1.PersistentVolume) error
			lost bool
		}{{"update", update, false}, {"unconditional update", updateUnconditionally, true}, {"merge patch", mergePatch, false}} {
			t.Run(fmt.Sprintf("%s, cached %v", tt.name, cached), func(t *testing.T) {
				s, err := scenario.Parse("keep", keep)
				if err != nil {
					t.Fatal(err)
				}
				s.Extra = []cluster.Component{namerComponent(cached, tt.save)}
				r, err := explore.Search(t.Context(), s, explore.Config{Strategy: explore.Holds})
				if err != nil {
					t.Fatal(err)
				}
				if !tt.lost {
					if r.Failure != nil || r.Complete != "no failure with at most 1 hold" {
						t.Errorf("%+v", r)
					}
					return
				}
				if r.Failure == nil {
					t.Fatalf("nothing found: %+v", r)
				}
				if len(r.Failure.Scenario.Schedule) != 1 || !losesWrite(r.Failure.Result) {
					t.Errorf("under %v: %v\n%s", r.Failure.Scenario.Schedule, r.Failure, r.Failure.Result.Trace.Text())
				}
				t.Logf("found in schedule %d: %s: %v", r.Failure.Schedules, r.Failure.Scenario.Schedule, r.Failure)
			})
		}
	}
}

// losesWrite reports whether the reconciler reverted alice's write, so that the driver deleted the
// volume.
func losesWrite(r *scenario.Result) bool {
	takenBack := false
	for _, record := range r.Trace.Records() {
		after, is := record.After.(*corev1.PersistentVolume)
		before, was := record.Before.(*corev1.PersistentVolume)
		if is && was && strings.HasPrefix(record.Task, "namer/") &&
			before.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain &&
			after.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			takenBack = true
		}
		if takenBack && record.Kind == trace.KindDriver && record.Verb == "DeleteVolume" {
			return true
		}
	}
	return false
}
