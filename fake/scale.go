package fake

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applyautoscalingv1 "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/volsim/volsim/fake/internal/rules"
)

// scaled has what a Scale shows of an object. wanted points to the object's spec replicas.
type scaled struct {
	specReplicas **int32
	replicas     int32
	selector     string
}

// scaledOf returns what a Scale shows of obj.
func scaledOf(obj Object) scaled {
	switch o := obj.(type) {
	case *appsv1.StatefulSet:
		return scaled{&o.Spec.Replicas, o.Status.Replicas, metav1.FormatLabelSelector(o.Spec.Selector)}
	case *appsv1.Deployment:
		return scaled{&o.Spec.Replicas, o.Status.Replicas, metav1.FormatLabelSelector(o.Spec.Selector)}
	case *appsv1.ReplicaSet:
		return scaled{&o.Spec.Replicas, o.Status.Replicas, metav1.FormatLabelSelector(o.Spec.Selector)}
	case *corev1.ReplicationController:
		return scaled{&o.Spec.Replicas, o.Status.Replicas, labels.Set(o.Spec.Selector).String()}
	default:
		panic(fmt.Sprintf("fake: %T is not scalable", obj))
	}
}

// newScale returns the kind that shows the objects of another as a Scale.
//
// Upstream: pkg/registry/apps/*/storage ScaleREST.
func newScale(of *kind) *kind {
	k := newKind(strategy[*autoscalingv1.Scale]{
		resource: of.resource, gvk: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), namespaced: true,
	}, func(metav1.ListMeta, []autoscalingv1.Scale) runtime.Object { panic("fake: Scale has no list") })
	k.id, k.base = of.id, of
	k.scaledBy = managedfields.ResourcePathMappings{of.gvk.GroupVersion().String(): fieldpath.MakePathOrDie("spec",
		"replicas")}
	k.fromStored = func(stored Object) (Object, error) {
		from, m := scaledOf(stored), metaOf(stored)
		return &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{
				Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
				CreationTimestamp: m.CreationTimestamp,
			},
			Spec:   autoscalingv1.ScaleSpec{Replicas: ptr.Deref(*from.specReplicas, 1)},
			Status: autoscalingv1.ScaleStatus{Replicas: from.replicas, Selector: from.selector},
		}, nil
	}
	k.toStored = func(shown, stored Object) (Object, error) {
		scale := shown.(*autoscalingv1.Scale)
		if err := k.checkScale(scale, stored); err != nil {
			return nil, err
		}
		obj := of.shallow(stored)
		*scaledOf(obj).specReplicas = &scale.Spec.Replicas
		obj.SetResourceVersion(scale.ResourceVersion)
		return obj, k.takeManaged(obj, stored, scale)
	}
	return k
}

// checkScale validates a write of a Scale.
func (k *kind) checkScale(scale *autoscalingv1.Scale, stored Object) error {
	if scale.Spec.Replicas < 0 {
		return invalid(k, scale.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, rules.NegativeMsg),
		})
	}
	if uid := scale.UID; uid != "" && uid != stored.GetUID() {
		return apierrors.NewConflict(k.base.groupResource(), scale.Name, preconditionError("UID", uid, stored.GetUID()))
	}
	return nil
}

// takeManaged converts the managed fields of a Scale to those of its object.
func (k *kind) takeManaged(obj, stored Object, scale *autoscalingv1.Scale) error {
	m := metaOf(obj)
	if len(m.ManagedFields) == 0 && len(scale.ManagedFields) == 0 {
		return nil
	}
	fields, err := k.scaleHandler(stored).ToParent(scale.ManagedFields)
	if err != nil {
		return internalError(err.Error())
	}
	m.ManagedFields = fields
	return nil
}

// scaleHandler converts managed fields between an object and its Scale.
func (k *kind) scaleHandler(stored Object) *managedfields.ScaleHandler {
	return managedfields.NewScaleHandler(stored.GetManagedFields(), k.base.gvk.GroupVersion(), k.scaledBy)
}

// ofScale reports whether a kind shows another one as a Scale.
func (k *kind) ofScale() bool { return k.base != nil && k.base.scale == k }

// scales has the methods for /scale of typed clients.
type scales struct{ ResourceClient }

func (s scales) scale(done Result, err error) (*autoscalingv1.Scale, error) {
	if err != nil {
		return &autoscalingv1.Scale{}, err
	}
	return done.Object.(*autoscalingv1.Scale), nil
}

// GetScale reads an object's Scale.
func (s scales) GetScale(ctx context.Context, name string, opts metav1.GetOptions) (*autoscalingv1.Scale, error) {
	c, _ := s.Scale()
	obj, err := c.Get(ctx, name, opts)
	return s.scale(Result{Object: obj}, err)
}

// UpdateScale sets the spec replicas of an object.
func (s scales) UpdateScale(ctx context.Context, name string, scale *autoscalingv1.Scale,
	opts metav1.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	c, _ := s.Scale()
	return s.scale(c.Update(ctx, name, scale, opts))
}

// ApplyScale applies a configuration to an object's Scale.
func (s scales) ApplyScale(ctx context.Context, name string, scale *applyautoscalingv1.ScaleApplyConfiguration,
	opts metav1.ApplyOptions,
) (*autoscalingv1.Scale, error) {
	if scale == nil {
		return &autoscalingv1.Scale{}, errNoScaleConfig
	}
	data, err := json.Marshal(scale)
	if err != nil {
		return &autoscalingv1.Scale{}, err
	}
	c, _ := s.Scale()
	return s.scale(c.Patch(ctx, name, types.ApplyYAMLPatchType, data, opts.ToPatchOptions()))
}

type (
	statefulSets struct {
		resource[*appsv1.StatefulSet, *appsv1.StatefulSetList, *applyappsv1.StatefulSetApplyConfiguration]
		scales
	}
	deployments struct {
		resource[*appsv1.Deployment, *appsv1.DeploymentList, *applyappsv1.DeploymentApplyConfiguration]
		scales
	}
	replicaSets struct {
		resource[*appsv1.ReplicaSet, *appsv1.ReplicaSetList, *applyappsv1.ReplicaSetApplyConfiguration]
		scales
	}
	replicationControllers struct {
		resource[*corev1.ReplicationController, *corev1.ReplicationControllerList,
			*applycorev1.ReplicationControllerApplyConfiguration]
		scales
	}
)
