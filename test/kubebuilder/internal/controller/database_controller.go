// Package controller reconciles Databases.
package controller

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/volsim/volsim/test/kubebuilder/api/v1"
)

// databaseLabel is the label of the children of a Database: its name.
const databaseLabel = "apps.example.com/database"

// DatabaseReconciler reconciles Databases.
type DatabaseReconciler struct {
	client.Client
	Scheme *runtime.Scheme
}

// +kubebuilder:rbac:groups=apps.example.com,resources=databases,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apps.example.com,resources=databases/status,verbs=get;update;patch
// +kubebuilder:rbac:groups="",resources=pods;persistentvolumeclaims,verbs=get;list;watch;create;delete

// Reconcile creates a claim and a pod for each replica, deletes those of surplus replicas, and
// counts the running pods.
func (r *DatabaseReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var database appsv1.Database
	if err := r.Get(ctx, req.NamespacedName, &database); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if database.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // the garbage collector deletes the children
	}
	replicas := 1
	if database.Spec.Replicas != nil {
		replicas = int(*database.Spec.Replicas)
	}
	for i := range replicas {
		name := fmt.Sprintf("%s-%d", database.Name, i)
		for _, child := range []client.Object{newClaim(name, &database), newPod(name)} {
			child.SetNamespace(database.Namespace)
			child.SetLabels(map[string]string{databaseLabel: database.Name})
			if err := ctrl.SetControllerReference(&database, child, r.Scheme); err != nil {
				return ctrl.Result{}, err
			}
			if err := r.Create(ctx, child); err != nil && !apierrors.IsAlreadyExists(err) {
				return ctrl.Result{}, err
			}
		}
	}
	children := []client.ListOption{client.InNamespace(database.Namespace), client.MatchingLabels{databaseLabel: database.Name}}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, children...); err != nil {
		return ctrl.Result{}, err
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &claims, children...); err != nil {
		return ctrl.Result{}, err
	}
	ready := int32(0)
	for i := range pods.Items {
		pod := &pods.Items[i]
		if isSurplus(pod, replicas) {
			if err := r.Delete(ctx, pod); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		} else if pod.Status.Phase == corev1.PodRunning {
			ready++
		}
	}
	for i := range claims.Items {
		if claim := &claims.Items[i]; isSurplus(claim, replicas) {
			if err := r.Delete(ctx, claim); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if database.Status.ReadyReplicas == ready {
		return ctrl.Result{}, nil
	}
	database.Status.ReadyReplicas = ready
	return ctrl.Result{}, r.Status().Update(ctx, &database)
}

// isSurplus reports whether a child is that of a replica beyond the number of replicas.
func isSurplus(child client.Object, replicas int) bool {
	name := child.GetName()
	i, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	return err == nil && i >= replicas
}

func newClaim(name string, database *appsv1.Database) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: database.Spec.Storage},
			},
		},
	}
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "database", Image: "database:1",
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}}},
		},
	}
}

// SetupWithManager registers the reconciler with a manager.
func (r *DatabaseReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Database{}).
		Owns(&corev1.PersistentVolumeClaim{}).
		Owns(&corev1.Pod{}).
		Named("database").
		Complete(r)
}
