package growth

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
)

// A Design is how an operator enlarges claims.
type Design string

// The designs. README.md has the reports of their bugs.
const (
	// TemplateFirst deletes the set and enlarges the claims then. The size in the templates says
	// whether there is something to do.
	TemplateFirst Design = "template-first"
	// InMemory has the replicas of the deleted set in memory until it creates the set again.
	InMemory Design = "in-memory"
	// ByName records the deleted set in an annotation, and deletes whatever set has its name.
	ByName Design = "by-name"
	// ClampedByTemplate refuses sizes that are less than those in the templates of the set.
	ClampedByTemplate Design = "clamped-by-template"
	// Fixed has none of the bugs.
	Fixed Design = "fixed"
)

// Designs are all designs.
var Designs = []Design{TemplateFirst, InMemory, ByName, ClampedByTemplate, Fixed}

// Operator returns an operator as a component. Its reads come from caches, as those of
// controller-runtime do.
func Operator(d Design) cluster.Component {
	ofDatabase := func(obj fake.Object) []types.NamespacedName {
		if name := obj.GetLabels()["database"]; name != "" {
			return []types.NamespacedName{{Namespace: obj.GetNamespace(), Name: name}}
		}
		return nil
	}
	return cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps",
		Watches: []cluster.Watch{
			{Resource: "statefulsets"}, {Resource: "persistentvolumeclaims", Keys: ofDatabase}, {Resource: "pods", Keys: ofDatabase},
		},
		Build: func(p cluster.ComponentContext) (cluster.Reconcile, error) {
			o := &operator{
				client: p.Client, live: p.WithReads(fake.ReadLive).Client, remembered: map[types.UID]int32{},
			}
			reconcile := map[Design]func(context.Context, *corev1.ConfigMap) error{
				TemplateFirst: o.templateFirst, InMemory: o.inMemory, ByName: o.byName,
				ClampedByTemplate: o.clampedByTemplate, Fixed: o.fixed,
			}[d]
			if reconcile == nil {
				return nil, fmt.Errorf("unknown design %q (have %q)", d, Designs)
			}
			return func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
				db, err := p.Client.CoreV1().ConfigMaps(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) || err == nil && len(wantedSizes(db)) == 0 {
					return 0, nil // no database
				} else if err != nil {
					return 0, err
				}
				return 0, reconcile(ctx, db)
			}, nil
		},
	})
}

type operator struct {
	client, live kubernetes.Interface // live reads from the API server
	remembered   map[types.UID]int32  // InMemory: replicas of the deleted set, by database
}

// set returns the set of a database. nil: there is none.
func (o *operator) set(ctx context.Context, db *corev1.ConfigMap) (*appsv1.StatefulSet, error) {
	set, err := o.client.AppsV1().StatefulSets(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return set, err
}

func (o *operator) create(ctx context.Context, set *appsv1.StatefulSet) error {
	_, err := o.client.AppsV1().StatefulSets(set.Namespace).Create(ctx, set, metav1.CreateOptions{})
	return err
}

// grow enlarges the claims that the cache has.
func (o *operator) grow(ctx context.Context, db *corev1.ConfigMap, s sizes) error {
	claims, err := claimsOf(ctx, o.client, db)
	if err != nil {
		return err
	}
	return grow(ctx, o.client, claims, s)
}

// templateFirst asks the templates of the set whether the claims must grow. BUG: once the set is
// deleted, the answer is lost.
func (o *operator) templateFirst(ctx context.Context, db *corev1.ConfigMap) error {
	set, err := o.set(ctx, db)
	wanted := wantedSizes(db)
	switch {
	case err != nil:
		return err
	case set == nil:
		return o.create(ctx, newSet(db, wantedReplicas(db), wanted))
	case set.DeletionTimestamp != nil:
		return nil // the set is orphaned; its last event requeues the database
	case templateSizes(set).lessThan(wanted):
		if err := deleteSet(ctx, o.client, set, ""); err != nil {
			return err
		}
		return o.grow(ctx, db, wanted)
	}
	return o.scale(ctx, db, set)
}

// inMemory remembers how many replicas the deleted set had. BUG: a crash forgets it, and the set is
// created with as many replicas as the database should have in the end.
func (o *operator) inMemory(ctx context.Context, db *corev1.ConfigMap) error {
	set, err := o.set(ctx, db)
	wanted := wantedSizes(db)
	if err == nil {
		err = o.grow(ctx, db, wanted)
	}
	switch {
	case err != nil:
		return err
	case set == nil:
		replicas, ok := o.remembered[db.UID]
		if !ok {
			replicas = wantedReplicas(db)
		}
		return o.create(ctx, newSet(db, replicas, wanted))
	case set.DeletionTimestamp != nil:
		return nil
	case templateSizes(set).lessThan(wanted):
		o.remembered[db.UID] = *set.Spec.Replicas
		return deleteSet(ctx, o.client, set, "")
	}
	delete(o.remembered, db.UID)
	return o.scale(ctx, db, set)
}

// recreateAnnotation has the set that is deleted and created again.
const recreateAnnotation = "example.com/recreate"

// A recreation is the value of the annotation.
type recreation struct {
	UID      types.UID `json:"uid"` // of the set that is deleted
	Replicas int32     `json:"replicas"`
}

// recreationOf returns the recreation that is recorded in a database. nil: there is none.
func recreationOf(db *corev1.ConfigMap) (*recreation, error) {
	text, ok := db.Annotations[recreateAnnotation]
	if !ok {
		return nil, nil
	}
	r := &recreation{}
	return r, json.Unmarshal([]byte(text), r)
}

// record records a recreation in a database, or removes the record if r is nil.
func (o *operator) record(ctx context.Context, db *corev1.ConfigMap, r *recreation) error {
	delete(db.Annotations, recreateAnnotation)
	if r != nil {
		metav1.SetMetaDataAnnotation(&db.ObjectMeta, recreateAnnotation, fmt.Sprintf(`{"uid":%q,"replicas":%d}`, r.UID, r.Replicas))
	}
	_, err := o.client.CoreV1().ConfigMaps(db.Namespace).Update(ctx, db, metav1.UpdateOptions{})
	return err
}

// byName records the set before it deletes it. BUG: it deletes the set that has the name, which may
// be the new one if the cache still has the old one.
func (o *operator) byName(ctx context.Context, db *corev1.ConfigMap) error {
	if err := o.grow(ctx, db, wantedSizes(db)); err != nil {
		return err
	}
	return o.recreate(ctx, db, nil, func(set *appsv1.StatefulSet) error { return deleteSet(ctx, o.client, set, "") })
}

// clampedByTemplate does not let a volume shrink. BUG: while the set is deleted, nothing says what
// the sizes were.
func (o *operator) clampedByTemplate(ctx context.Context, db *corev1.ConfigMap) error {
	set, err := o.set(ctx, db)
	wanted := wantedSizes(db)
	switch {
	case err != nil:
		return err
	case set == nil:
		return o.create(ctx, newSet(db, wantedReplicas(db), wanted))
	case set.DeletionTimestamp != nil:
		return nil
	}
	wanted = wanted.atLeast(templateSizes(set))
	if err := o.grow(ctx, db, wanted); err != nil {
		return err
	}
	if templateSizes(set).lessThan(wanted) {
		return deleteSet(ctx, o.client, set, set.UID)
	}
	return o.scale(ctx, db, set)
}

// fixed enlarges the claims first, whether or not there is a set. It records the set before it deletes
// it, deletes only that one, and lets no volume become smaller than a claim is.
func (o *operator) fixed(ctx context.Context, db *corev1.ConfigMap) error {
	claims, err := claimsOf(ctx, o.live, db)
	if err != nil {
		return err
	}
	floor := largest(claims)
	if err := grow(ctx, o.client, claims, wantedSizes(db).atLeast(floor)); err != nil {
		return err
	}
	return o.recreate(ctx, db, floor, func(set *appsv1.StatefulSet) error {
		if n, err := o.ownPods(ctx, db); err != nil || n < int(*set.Spec.Replicas) {
			return err // a pod that is created later requeues the database
		}
		return deleteSet(ctx, o.client, set, set.UID)
	})
}

// ownPods makes a database an owner of its pods, and returns how many there are. The garbage collector
// deletes a pod of the deleted set that it sees too late to orphan it, unless the pod has another
// owner.
func (o *operator) ownPods(ctx context.Context, db *corev1.ConfigMap) (int, error) {
	pods, err := o.live.CoreV1().Pods(db.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "database=" + db.Name})
	if err != nil {
		return 0, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if slices.ContainsFunc(pod.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == db.UID }) {
			continue
		}
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: db.Name, UID: db.UID,
		})
		if _, err := o.client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
			return 0, err
		}
	}
	return len(pods.Items), nil
}

// recreate lets the set of a database have templates of the wanted sizes, but at least floor. It
// spans several reconciles: record the set, delete it, create it, remove the record.
func (o *operator) recreate(ctx context.Context, db *corev1.ConfigMap, floor sizes,
	deleteRecorded func(*appsv1.StatefulSet) error,
) error {
	set, err := o.set(ctx, db)
	if err == nil && set == nil { // the cache of databases may lack the record
		db, err = o.live.CoreV1().ConfigMaps(db.Namespace).Get(ctx, db.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	wanted := wantedSizes(db).atLeast(floor)
	r, err := recreationOf(db)
	switch {
	case err != nil:
		return err
	case set == nil && r == nil:
		return o.create(ctx, newSet(db, wantedReplicas(db), wanted))
	case set == nil:
		return o.create(ctx, newSet(db, r.Replicas, wanted))
	case set.DeletionTimestamp != nil:
		return nil
	case r != nil && r.UID == set.UID:
		return deleteRecorded(set)
	case r != nil:
		return o.record(ctx, db, nil) // the set has been created again
	case templateSizes(set).lessThan(wanted):
		return o.record(ctx, db, &recreation{UID: set.UID, Replicas: *set.Spec.Replicas})
	}
	return o.scale(ctx, db, set)
}

// drainedAnnotation says that the data of a pod has been moved to others.
const drainedAnnotation = "example.com/drained"

// scale makes one step towards the wanted number of replicas. Before a pod is removed, its data is
// moved to the others, which the annotation stands for.
func (o *operator) scale(ctx context.Context, db *corev1.ConfigMap, set *appsv1.StatefulSet) error {
	has, wants := *set.Spec.Replicas, wantedReplicas(db)
	switch {
	case has == wants:
		return nil
	case has > wants:
		last := fmt.Sprintf("%s-%d", set.Name, has-1)
		pod, err := o.live.CoreV1().Pods(set.Namespace).Get(ctx, last, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case pod.Annotations[drainedAnnotation] == "":
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, drainedAnnotation, "true")
			_, err = o.client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
			return err // its event requeues the database
		}
		wants = has - 1
	}
	set.Spec.Replicas = &wants
	_, err := o.client.AppsV1().StatefulSets(set.Namespace).Update(ctx, set, metav1.UpdateOptions{})
	return err
}
