package operator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	dbv1 "github.com/volsim/volsim/test/operator/api/v1"
	"github.com/volsim/volsim/test/operator/controller"
)

// A bench is an operator with a fake client.
type bench struct {
	*testing.T
	client.Client
	operator *controller.DatabaseReconciler
	writes   int                         // that succeeded
	fail     func(write int) (err error) // fails a write, if not nil
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	b := &bench{T: t}
	attempts := 0
	write := func(do func() error) error {
		attempts++
		if b.fail != nil {
			if err := b.fail(attempts); err != nil {
				return err
			}
		}
		b.writes++
		return do()
	}
	b.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&dbv1.Database{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{}).
		WithIndex(&corev1.Pod{}, controller.OwnerIndex, controller.OwnerOf).Build()
	writes := interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption,
		) error {
			return write(func() error { return c.Patch(ctx, obj, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption,
		) error {
			return write(func() error { return c.SubResource(sub).Update(ctx, obj, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			return write(func() error { return c.SubResource(sub).Patch(ctx, obj, p, opts...) })
		},
	})
	b.operator = &controller.DatabaseReconciler{
		Client: writes, APIReader: b.Client, Recorder: events.NewFakeRecorder(100), Bug: bug,
	}
	return b
}

// reconcile reconciles the Database once.
func (b *bench) reconcile() error {
	_, err := b.operator.Reconcile(b.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(database(0, "0"))})
	return err
}

// settle reconciles as long as this writes something or fails.
func (b *bench) settle() {
	b.Helper()
	var err error
	for range 50 {
		before := b.writes
		if err = b.reconcile(); err == nil && b.writes == before {
			return
		}
	}
	b.Fatalf("does not settle: %v", err)
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// db returns the Database.
func (b *bench) db() *dbv1.Database {
	b.Helper()
	var db dbv1.Database
	b.must(b.Get(b.Context(), client.ObjectKeyFromObject(database(0, "0")), &db))
	return &db
}

// change changes the spec of the Database.
func (b *bench) change(f func(spec *dbv1.DatabaseSpec)) {
	b.Helper()
	db := b.db()
	f(&db.Spec)
	db.Generation++
	b.must(b.Update(b.Context(), db))
}

// claims returns the claims, with their sizes.
func (b *bench) claims() (objects []corev1.PersistentVolumeClaim, sizes []string) {
	b.Helper()
	var all corev1.PersistentVolumeClaimList
	b.must(b.List(b.Context(), &all))
	for _, claim := range all.Items {
		sizes = append(sizes, claim.Labels[controller.ReplicaLabel]+" "+claim.Spec.Resources.Requests.Storage().String())
	}
	slices.Sort(sizes)
	return all.Items, sizes
}

// pods returns the names of the pods.
func (b *bench) pods() (objects []corev1.Pod, names []string) {
	b.Helper()
	var all corev1.PodList
	b.must(b.List(b.Context(), &all))
	for _, pod := range all.Items {
		names = append(names, pod.Name)
	}
	return all.Items, names
}

// want compares the claims and the pods.
func (b *bench) want(claims, pods []string) {
	b.Helper()
	_, gotClaims := b.claims()
	_, gotPods := b.pods()
	if !slices.Equal(gotClaims, claims) || !slices.Equal(gotPods, pods) {
		b.Fatalf("claims %q and pods %q, want %q and %q", gotClaims, gotPods, claims, pods)
	}
}

// run binds the claims and runs the pods, as the control plane does.
func (b *bench) run() {
	b.Helper()
	claims, _ := b.claims()
	for _, claim := range claims {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
		b.must(b.Status().Update(b.Context(), &claim))
	}
	pods, _ := b.pods()
	for _, pod := range pods {
		pod.Status.Phase = corev1.PodRunning
		b.must(b.Status().Update(b.Context(), &pod))
	}
}

func (b *bench) wantReady(want bool) {
	b.Helper()
	db := b.db()
	got := meta.IsStatusConditionTrue(db.Status.Conditions, dbv1.ConditionReady)
	if got != want || db.Status.ObservedGeneration != db.Generation {
		b.Fatalf("ready: %v, want %v; generation %d; status %+v", got, want, db.Generation, db.Status)
	}
}

func TestFakeClient(t *testing.T) {
	for name, test := range map[string]func(b *bench){
		"creates a claim and a pod for each replica": func(b *bench) {
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0", "db-1"})
			b.wantReady(false)
		},
		"is ready when all pods run": func(b *bench) {
			b.settle()
			b.run()
			b.settle()
			b.wantReady(true)
			if status := b.db().Status; status.ReadyReplicas != 2 || status.Storage.String() != "1Gi" || len(status.Claims) != 2 {
				b.Errorf("status %+v", status)
			}
		},
		"creates a deleted pod again": func(b *bench) {
			b.settle()
			b.must(b.DeleteAllOf(b.Context(), &corev1.Pod{}, client.InNamespace("default")))
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0", "db-1"})
		},
		"scales up": func(b *bench) {
			b.settle()
			b.change(func(spec *dbv1.DatabaseSpec) { spec.Replicas = ptr.To[int32](3) })
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi", "2 1Gi"}, []string{"db-0", "db-1", "db-2"})
		},
		"grows claims when they are bound": func(b *bench) {
			b.settle()
			b.change(func(spec *dbv1.DatabaseSpec) { spec.Storage = resource.MustParse("2Gi") })
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0", "db-1"})
			b.run()
			b.settle()
			b.want([]string{"0 2Gi", "1 2Gi"}, []string{"db-0", "db-1"})
			b.wantReady(false)
			b.run()
			b.settle()
			b.wantReady(true)
		},
		"grows and scales up at once": func(b *bench) {
			b.settle()
			b.run()
			b.change(func(spec *dbv1.DatabaseSpec) {
				spec.Replicas, spec.Storage = ptr.To[int32](3), resource.MustParse("2Gi")
			})
			b.settle()
			b.want([]string{"0 2Gi", "1 2Gi", "2 2Gi"}, []string{"db-0", "db-1", "db-2"})
		},
		"scales down in order, and the claim goes after its pod": func(b *bench) {
			b.settle()
			pods, _ := b.pods()
			controllerutil.AddFinalizer(&pods[1], "example.com/keeps-it-terminating")
			b.must(b.Update(b.Context(), &pods[1]))
			b.change(func(spec *dbv1.DatabaseSpec) { spec.Replicas = ptr.To[int32](0) })
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0", "db-1"})
			pods, _ = b.pods()
			if !pods[0].DeletionTimestamp.IsZero() || pods[1].DeletionTimestamp.IsZero() {
				b.Error("the pods are not deleted in order")
			}
			controllerutil.RemoveFinalizer(&pods[1], "example.com/keeps-it-terminating")
			b.must(b.Update(b.Context(), &pods[1]))
			b.settle()
			b.want(nil, nil)
		},
		"retains claims and uses them again": func(b *bench) {
			b.change(func(spec *dbv1.DatabaseSpec) { spec.ClaimPolicy = dbv1.RetainClaims })
			b.settle()
			before, _ := b.claims()
			b.change(func(spec *dbv1.DatabaseSpec) { spec.Replicas = ptr.To[int32](1) })
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0"})
			b.change(func(spec *dbv1.DatabaseSpec) { spec.Replicas = ptr.To[int32](2) })
			b.settle()
			b.want([]string{"0 1Gi", "1 1Gi"}, []string{"db-0", "db-1"})
			if after, _ := b.claims(); before[1].UID != after[1].UID {
				b.Error("another claim")
			}
		},
		"cleans up": func(b *bench) {
			b.settle()
			b.must(b.Delete(b.Context(), b.db()))
			b.settle()
			b.want(nil, nil)
			if err := b.Get(b.Context(), client.ObjectKeyFromObject(database(0, "0")), &dbv1.Database{}); !apierrors.IsNotFound(err) {
				b.Errorf("the Database still exists: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) { test(newBench(t, database(2, "1Gi"))) })
	}
}

// Each write of the operator fails once.
func TestFakeClientFailures(t *testing.T) {
	for name, failure := range map[string]error{
		"error":    errors.New("injected"),
		"conflict": apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", errors.New("injected")),
	} {
		for write := 1; ; write++ {
			failed := false
			t.Run(fmt.Sprintf("%s %d", name, write), func(t *testing.T) {
				b := newBench(t, database(2, "1Gi"))
				b.fail = func(n int) error {
					if failed = failed || n == write; n == write {
						return failure
					}
					return nil
				}
				b.settle()
				b.run()
				b.change(func(spec *dbv1.DatabaseSpec) {
					spec.Replicas, spec.Storage = ptr.To[int32](1), resource.MustParse("2Gi")
				})
				b.settle()
				b.run()
				b.settle()
				b.want([]string{"0 2Gi"}, []string{"db-0"})
				b.wantReady(true)
				b.must(b.Delete(b.Context(), b.db()))
				b.settle()
				b.want(nil, nil)
			})
			if t.Failed() || !failed {
				break
			}
		}
	}
}
